"""The embedding variable: a native table that TensorFlow tracks, and a proxy that stands for it where a variable is expected.

The table (native/embedding) is a resource, not a variable: it has no shape, and a checkpoint writes what it holds at that moment.
The proxy (`ctrlab.embedding.proxy`) is what gradients flow to and what Keras copies.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ctrlab.embedding import lookup
from ctrlab.embedding.options import (
    INITIALIZERS,
    BloomFilter,
    CounterFilter,
    GlobalStepEviction,
    Options,
    Storage,
    require_whole,
)
from ctrlab.embedding.proxy import Proxy
from ctrlab.embedding.state import FIELDS, TableState
from ctrlab.errors import CtrlabError, choose
from ctrlab.ops import _native
from ctrlab.ops.lookup import Layout
from ctrlab.ops.refusals import one_sentence

ADMISSIONS = {"NoneType": 0, "CounterFilter": 1, "BloomFilter": 2}
PARTS = (
    "keys",
    "values",
    "slots",
    "frequencies",
    "steps",
    "candidate_keys",
    "candidate_counts",
    "candidate_steps",
    "filter",
    "removed",
    "slot_names",
)
SAVED = tuple(part for part in PARTS if part != "removed")
WHOLE = (0, 1)
"""Shard 0 of 1."""


@dataclass(frozen=True)
class Stats:
    """Figures of a table at one moment.

    Attributes:
        rows, candidates: keys with a row; keys that are counted and have none.
        rows_below: of the rows, those that sank below the memory.
        bytes, peak_bytes: memory that it holds, index and filter included, and the most that it ever held.
        hits, hits_below, misses: of the keys looked up so far, each as often as it came, those whose row was in memory, those
            whose row was read from below it, and those that had none: they add up. What `prefetch` and updates bring up is none.
        removed: keys that went since the last save.
        problem: why rows could not sink to the storage the last time, in a sentence; empty where they could. Training goes on
            while the memory has room, and the update that finds none is refused with the same sentence.
    """

    rows: int
    candidates: int
    rows_below: int
    bytes: int
    peak_bytes: int
    hits: int
    misses: int
    hits_below: int
    removed: int
    problem: str = ""

    @property
    def hit_rate(self) -> float:
        """Of the keys looked up, the share that had a row in memory; 0 before the first."""
        return self.hits / max(1, self.hits + self.hits_below + self.misses)


class EmbeddingVariable(tf.saved_model.experimental.TrackableResource):
    """Rows of D numbers under any int64 keys; a key's row is made when training first updates it, or once a filter admits it.

    It is no `tf.Variable`: look rows up with `lookup`, or many columns at once with `ctrlab.embedding.lookup.grouped`, and train
    it through `proxy` by a `TouchedRows`. It lives in this process's memory, on its CPU. Lookups and steps may come from several
    threads at once.

    `tf.train.Checkpoint` and `tf.saved_model.save` write all it holds, slots included, at one moment, and restore it; what
    `ctrlab.embedding.served` gives in its place, keys and values alone. In a loaded SavedModel all rows are in memory and a key
    without a row reads 0; the process that loads one calls `ctrlab.ops.register()` first.

    Args:
        name: in messages and checkpoints.
        dim: D, in [1, 65536).
        options: initial values, admission, eviction, storage; None: `Options()`.
    Raises:
        CtrlabError: inside a distribution strategy, which would need a table a replica; a dimension or name that can't be.
        NativeLibraryError: there is no compiled library for this TensorFlow.

    >>> users = EmbeddingVariable("users", dim=16)
    >>> users.lookup(tf.constant([7, -1], tf.int64)).shape  # doctest: +SKIP
    TensorShape([2, 16])
    """

    def __init__(self, name: str, dim: int, options: Options | None = None):
        options = Options() if options is None else options
        if not isinstance(options, Options):
            raise CtrlabError(f"The options of embedding variable {name} must be ctrlab.embedding.Options; received {options!r}.")
        if tf.distribute.has_strategy():
            raise CtrlabError(
                f"An embedding variable lives in one process and can't be mirrored; received a distribution strategy for {name}: "
                "make the model outside of its scope."
            )
        if not isinstance(name, str) or not name.strip(".") or not name.isprintable() or "/" in name:
            raise CtrlabError(
                "The name of an embedding variable must be printable text, not empty or dots, without a slash; received "
                f"{name!r}."
            )
        require_whole(f"The dim of embedding variable {name}", dim, 1, 16)
        super().__init__(device="CPU:0")
        self.name, self.dim, self.options = name, dim, options
        self.base = 0
        """Another number whenever what `changed` refers to has moved: who saves deltas of this variable must be the only one."""
        with tf.init_scope(), one_sentence():
            _ = self.resource_handle  # made now: a wrong option is refused here, not at the first lookup
        self.proxy = Proxy(self)
        self._track_trackable(self.proxy, "proxy")

    def _create_resource(self) -> tf.Tensor:
        return self.make(self.options.admission, self.options.storage if tf.executing_eagerly() else None)

    def make(
        self,
        admission: CounterFilter | BloomFilter | None,
        storage: Storage | None,
        container: str = "",
        served_name: str = "",
    ) -> tf.Tensor:
        """The handle of a new table for such rows. In a graph, as a SavedModel has it, it outlives a session's call.

        Args:
            container, served_name: where it is served, to all of the process that have these; none: it is not.
        """
        initializer = self.options.initializer
        bloom = admission if isinstance(admission, BloomFilter) else None
        return _native.library().ops.ctrlab_embedding_table(
            numbers=tf.constant([initializer.a, initializer.b, bloom.false_positive_rate if bloom else 0.0], tf.float64),
            table_name=self.name,
            dim=self.dim,
            initializer=INITIALIZERS.index(initializer.kind),
            seed=initializer.seed,
            admission=ADMISSIONS[type(admission).__name__],
            threshold=admission.threshold if admission else 1,
            expected_keys=bloom.expected_keys if bloom else 0,
            storage_path=os.path.join(storage.path, self.name) if storage else "",  # tables that share options don't share it
            memory_rows=storage.memory_rows if storage else 0,
            cache=storage.cache if storage else "lfu",
            compaction=storage.compaction if storage else "async",
            keep=not tf.executing_eagerly(),
            container=container,
            served_name=served_name,
        )

    def lookup(self, keys: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Keys int64 of any shape, or ragged -> their rows, float32 [..., D].

        Args:
            training: a key without a row reads its initial value; else 0.
        """
        if isinstance(keys, tf.RaggedTensor):
            return keys.with_flat_values(self.lookup(keys.flat_values, training))
        keys = tf.convert_to_tensor(keys)
        (rows,) = lookup.grouped([self], [tf.reshape(keys, [-1])], Layout((0,), ("rows",), (0,)), training)
        return tf.reshape(rows, tf.concat([tf.shape(keys), [self.dim]], 0))

    def rows(self) -> int:
        """How many keys have a row."""
        return self.stats().rows

    def stats(self) -> Stats:
        found = _native.library().ops.ctrlab_embedding_stats(handle=self.resource_handle)
        return Stats(*found.stats.numpy().tolist(), found.problem.numpy().decode())

    def prefetch(self, keys: tf.Tensor) -> None:
        """Brings the rows of int64 keys up into the memory, for the lookup that comes; for tables with storage below it."""
        with one_sentence():
            _native.library().ops.ctrlab_embedding_prefetch(handle=self.resource_handle, keys=keys)

    def keys_below(self) -> np.ndarray:
        """int64: the keys whose rows are below the memory."""
        with one_sentence():
            return _native.library().ops.ctrlab_embedding_keys_below(handle=self.resource_handle).numpy()

    def set_slots(self, slots: dict[str, float]) -> None:
        """Gives each row an optimizer's slots: {name: initial value}. Slots of these names that are there already are kept."""
        with tf.init_scope(), one_sentence():
            _native.library().ops.ctrlab_embedding_set_slots(
                handle=self.resource_handle, slot_names=list(slots), initial=list(slots.values())
            )

    def evict(self, step: int | None = None) -> int:
        """Removes what the option `eviction` says; how many rows went. Candidates that are too old go, too.

        Args:
            step: the step it is now; None: that of the last update.
        Raises:
            CtrlabError: the variable has no such option.
        """
        rule = self.options.eviction
        if rule is None:
            raise CtrlabError(f"Embedding variable {self.name} evicts by its option `eviction`; it has none.")
        by_step = isinstance(rule, GlobalStepEviction)
        with one_sentence():
            return int(
                _native.library().ops.ctrlab_embedding_evict(
                    handle=self.resource_handle,
                    rule="steps" if by_step else "norm",
                    step=-1 if step is None else step,
                    limit=tf.constant(rule.steps_to_live if by_step else rule.threshold, tf.float64),
                )
            )

    def state(self, *, save: bool = False, shard: tuple[int, int] = WHOLE) -> TableState:
        """All that it holds, at one moment.

        Args:
            save: this is what the next `changed` refers to.
            shard: (j, N): of the keys with hash(key) mod N == j only.
        Raises:
            CtrlabError: a save of a shard, after which changes of the other keys would be forgotten.
        """
        if save and shard != WHOLE:
            raise CtrlabError(f"A save must be of the whole table, for later changes refer to it; received shard {shard}.")
        return self._export("save" if save else "all", shard)

    def changed(self) -> TableState:
        """What changed since the last `state(save=True)` or `changed`; the next one starts here."""
        return self._export("changes", WHOLE)

    def load_state(self, state: TableState, *, shard: tuple[int, int] = WHOLE, how: str = "all") -> None:
        """Takes a state, or a shard's part of it. A state without slots begins with the optimizer's initial ones.

        Args:
            how: "all": in place of everything; "more": besides it; "changes": as changes of what it is.
        Raises:
            CtrlabError: another dimension, other slots, a key twice, a count below 1, numbers that are not whole; nothing has
                changed then. UnknownName: no such `how`.
        """
        choose("way to take a state", how, ("all", "more", "changes"))
        slots = [np.asarray(array, np.float32) for array in state.slots.values()]
        if odd := [name for name, slot in zip(state.slots, slots) if slot.shape != np.shape(state.values)]:
            raise CtrlabError(f"Slots must be as values are, {np.shape(state.values)}; slot {odd[0]} of {self.name} is not.")
        parts = {name: self._whole(name, getattr(state, name), dtype) for name, dtype in FIELDS.items() if name != "values"}
        parts |= {
            "values": np.asarray(state.values, np.float32),
            "slots": np.stack(slots) if slots else np.zeros((0, len(state.keys), self.dim), np.float32),
            "slot_names": tf.constant(list(state.slots), tf.string),
        }
        with one_sentence():
            self._import(parts, shard, how)

    def _whole(self, name: str, numbers, dtype: type) -> np.ndarray:
        numbers = np.asarray(numbers)
        if numbers.size and not np.can_cast(numbers.dtype, dtype):
            raise CtrlabError(f"The {name} of {self.name} must be {np.dtype(dtype)}; received {numbers.dtype}: cast them.")
        return numbers.astype(dtype, copy=False)

    @property
    def slot_names(self) -> tuple[str, ...]:
        """The slots beside each row, in the optimizer's order; none before one was built."""
        stats = _native.library().ops.ctrlab_embedding_stats(handle=self.resource_handle)
        return tuple(name.decode() for name in stats.slot_names.numpy())

    def _export(self, extent: str, shard: tuple[int, int]) -> TableState:
        with one_sentence():
            parts = _native.library().ops.ctrlab_embedding_export(
                handle=self.resource_handle, shard=tf.constant(shard, tf.int64), extent=extent
            )
        self.base += extent != "all"
        names = [name.decode() for name in parts.slot_names.numpy()]
        # Views of the tensors, which would otherwise be copied once more.
        arrays = {name: np.asarray(memoryview(getattr(parts, name))) for name in PARTS if name != "slot_names"}
        return TableState(**arrays | {"slots": dict(zip(names, arrays["slots"]))})

    def _import(self, parts, shard: tuple[int, int], how: str):
        self.base += 1
        return _native.library().ops.ctrlab_embedding_import(
            handle=self.resource_handle, shard=tf.constant(shard, tf.int64), kind=how, **parts
        )

    def _serialize_to_tensors(self) -> dict[str, tf.Tensor]:
        parts = export_all(self.resource_handle)
        return {name: getattr(parts, name) for name in SAVED}

    def _restore_from_tensors(self, tensors: dict[str, tf.Tensor]):
        return self._import(tensors | {"removed": tf.zeros([0], tf.int64)}, WHOLE, "all")


def export_all(handle: tf.Tensor):
    """All that a table holds at one moment, as tensors, in a graph or out of it."""
    return _native.library().ops.ctrlab_embedding_export(handle=handle, shard=tf.constant(WHOLE, tf.int64), extent="all")


def embedding_variables(model) -> list[EmbeddingVariable]:
    """Those of a Keras model or layer, in the order of its weights."""
    return [weight.table for weight in model.weights if isinstance(weight, Proxy)]

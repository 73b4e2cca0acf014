"""The embedding variable: a native table that TensorFlow tracks, and a proxy for code that expects a variable.

The table (native/table) is a resource, not a variable: it has no shape, and a checkpoint writes its content at that moment.
Gradients flow to the proxy (`ctrlab.embedding.table.proxy`), and Keras copies it.
"""

from __future__ import annotations

import gc
import os

import numpy as np
import tensorflow as tf

from ctrlab import _native, keras_hooks
from ctrlab.embedding.options import (
    INITIALIZERS,
    BloomFilter,
    CounterFilter,
    GlobalStepEviction,
    Options,
    Storage,
    require_whole,
)
from ctrlab.embedding.table import ops as table_ops
from ctrlab.embedding.table.cut import Cut, Stage
from ctrlab.embedding.table.proxy import Proxy
from ctrlab.embedding.table.resource import WHOLE, export_all, exported, import_tensors, take_state
from ctrlab.embedding.table.stats import Stats
from ctrlab.embedding.table_state import FIELDS, TableState
from ctrlab.errors import CtrlabError
from ctrlab.ops.lookup import Layout
from ctrlab.ops.refusals import one_sentence

ADMISSIONS = {"NoneType": 0, "CounterFilter": 1, "BloomFilter": 2}
SAVED = (*(name for name in FIELDS if name != "removed"), "slots", "slot_names")
MOST_AT_ONCE = 4_000_000_000
"""Largest number of bytes of a table that is written in one piece."""


class Closes:
    """An object that is closed at the end of a `with` block."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.close()


class EmbeddingVariable(Closes, keras_hooks.Resource):
    """Rows of D numbers under any int64 keys. A key's row is made at its first update in training, or when a filter admits it.

    It is not a `tf.Variable`. Look rows up with `lookup`, or many columns at once with `ctrlab.embedding.table.ops.grouped`.
    Train it through `proxy` with a `TouchedRows`. It lives in this process's memory, on the CPU. Several threads may run lookups
    and steps at once. `close`, or the end of a `with` block, frees the rows and the storage at once. So does the end of its last
    user; but a Keras model is a reference cycle, which lives until Python's garbage collector runs, and so does its table.

    `tf.train.Checkpoint` and `tf.saved_model.save` write the content with slots at one moment, and restore it. The copy that
    `ctrlab.embedding.served` gives writes keys and values only. In a loaded SavedModel all rows are in memory, and a key without
    a row reads 0; the process that loads it must have imported `ctrlab`.

    Args:
        name: used in messages and checkpoints.
        dim: D, in [1, 65536).
        options: initial values, admission, eviction, storage; None: `Options()`.
    Raises:
        CtrlabError: inside a distribution strategy, which would need a table per replica; an invalid dimension or name.
        NativeLibraryError: no compiled library for this TensorFlow.

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
        self.name, self.dim, self.options, self._closed = name, dim, options, False
        with tf.init_scope(), one_sentence():
            _ = self.resource_handle  # made here, so that a wrong option is refused now and not at the first lookup
        self.proxy = Proxy(self)
        keras_hooks.track(self, self.proxy, "proxy")

    def make_handle(self) -> tf.Tensor:
        return self.make(self.options.admission, self.options.storage if tf.executing_eagerly() else None)

    def make(
        self,
        admission: CounterFilter | BloomFilter | None,
        storage: Storage | None,
        container: str = "",
        served_name: str = "",
    ) -> tf.Tensor:
        """Makes a new table with these settings; returns its handle. In a SavedModel's graph the table outlives a session's call.

        Args:
            container, served_name: the whole process finds the served table under these names; empty: it is not served.
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
            storage_path=os.path.join(storage.path, self.name) if storage else "",  # tables may share options, but not a folder
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
        Raises:
            CtrlabError: no int64 keys; the variable is closed.
        """
        if isinstance(keys, tf.RaggedTensor):
            return keys.with_flat_values(self.lookup(keys.flat_values, training))
        try:
            keys = tf.convert_to_tensor(keys)
        except (TypeError, ValueError):
            raise CtrlabError(f"Embedding variable {self.name} looks up int64 keys; received {keys!r}.") from None
        (rows,) = table_ops.grouped([self], [tf.reshape(keys, [-1])], Layout((0,), ("rows",), (0,)), training)
        return tf.reshape(rows, tf.concat([tf.shape(keys), [self.dim]], 0))

    def rows(self) -> int:
        """The number of keys with a row."""
        return self.stats().rows

    def stats(self) -> Stats:
        """Statistics of the table's content and calls. A table that a model's choice of embedding left hashed has no variable,
        and so no statistics: `ctrlab.embedding.choices.reasons` says which, and why.
        """
        with one_sentence():
            found = _native.library().ops.ctrlab_embedding_stats(handle=self.resource_handle)
        return Stats(*found.stats.numpy().tolist(), found.problem.numpy().decode())

    def prefetch(self, keys: tf.Tensor) -> None:
        """Loads the rows of int64 keys into memory for the next lookup; for tables with storage."""
        with one_sentence():
            _native.library().ops.ctrlab_embedding_prefetch(handle=self.resource_handle, keys=keys)

    def keys_below(self) -> np.ndarray:
        """The keys whose rows are below the memory, int64."""
        with one_sentence():
            return _native.library().ops.ctrlab_embedding_keys_below(handle=self.resource_handle).numpy()

    def set_slots(self, slots: dict[str, float]) -> None:
        """Gives each row an optimizer's slots: {name: initial value}. Existing slots of these names are kept."""
        with tf.init_scope(), one_sentence():
            _native.library().ops.ctrlab_embedding_set_slots(
                handle=self.resource_handle, slot_names=list(slots), initial=list(slots.values())
            )

    def open_storage(self) -> None:
        """Opens the storage, if the options have one: `TouchedRows.build` calls it. Otherwise the first step would.

        Raises:
            CtrlabError: the folder can't be made, holds foreign files, or is used by another variable.
        """
        if self.options.storage is None:
            return
        with tf.init_scope(), one_sentence():
            try:
                _native.library().ops.ctrlab_embedding_open(handle=self.resource_handle)
            except tf.errors.OpError:
                gc.collect()  # the model before this one may have the folder until its reference cycle is deleted
                _native.library().ops.ctrlab_embedding_open(handle=self.resource_handle)

    def close(self) -> None:
        """Frees the rows and removes the storage, so that another variable may use the folder. Any later use of the variable,
        also by a traced function or a thread, is refused. Closing twice does nothing.
        """
        if self._closed:
            return
        self._closed = True
        with tf.init_scope(), one_sentence():
            _native.library().ops.ctrlab_embedding_close(handle=self.resource_handle)

    def evict(self, step: int | None = None) -> int:
        """Removes what the option `eviction` selects, including candidates that are too old; returns the number of removed rows.

        Args:
            step: the current step; None: the step of the last update.
        Raises:
            CtrlabError: the variable has no option `eviction`.
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

    def state(self, *, shard: tuple[int, int] = WHOLE) -> TableState:
        """The whole content at one moment, in memory. `cut` gives it in parts.

        Args:
            shard: (j, N) selects the keys with hash(key) mod N == j.
        """
        return exported(self.resource_handle, shard)

    def cut(self, consumer: str) -> Cut:
        """A `Cut` with the changes since the version that a consumer confirmed; with everything for an unknown consumer.

        >>> cut = users.cut("server")  # doctest: +SKIP
        >>> for part in cut.parts():  # doctest: +SKIP
        ...     send(part)
        >>> users.confirm("server", cut.version)  # doctest: +SKIP
        """
        _require_consumer(consumer)
        with one_sentence():
            return Cut(_native.library().ops.ctrlab_embedding_cut(handle=self.resource_handle, consumer=consumer), self.dim)

    def confirm(self, consumer: str, version: int) -> None:
        """Says that the consumer has everything up to this version: that of its last cut, or of an earlier cut after the version
        it confirmed last. A consumer that has confirmed nothing can only confirm its last cut. An unknown one, as after `forget`,
        stays unknown.

        Raises:
            CtrlabError: a version above the consumer's last cut or below its last confirmed version; before the first
                confirmation, any version but the last cut's. A version of another consumer in that range is not noticed.
        """
        _require_consumer(consumer)
        if not isinstance(version, int | np.integer):
            raise CtrlabError(f"A consumer confirms the version of a cut, a whole number; received {version!r}.")
        with one_sentence():
            _native.library().ops.ctrlab_embedding_confirm(handle=self.resource_handle, consumer=consumer, version=version)

    def caught_up(self, consumer: str) -> int:
        """Says that the consumer has what the table holds now; returns the version of that content."""
        _require_consumer(consumer)
        with one_sentence():
            return int(_native.library().ops.ctrlab_embedding_caught_up(handle=self.resource_handle, consumer=consumer))

    def forget(self, consumer: str) -> None:
        """Stops logging for this consumer; its next cut gives everything."""
        _require_consumer(consumer)
        if self._closed:
            return
        _native.library().ops.ctrlab_embedding_forget(handle=self.resource_handle, consumer=consumer)

    def load_state(self, state: TableState, *, shard: tuple[int, int] = WHOLE, how: str = "all") -> None:
        """Takes a state, or one shard of it. If the state has no slots, they get the optimizer's initial values.

        Args:
            how: "all" replaces the content; "more" adds to it; "changes" applies a delta to it.
        Raises:
            CtrlabError: no state, another dimension or other slots, a repeated key, a count below 1, or numbers that are not
                whole; the table is unchanged then. UnknownName: no such `how`.
        """
        take_state(self.resource_handle, self.name, self.dim, state, shard, how)

    def stage(self) -> Stage:
        """An empty table with the settings of this one, which takes a state in parts.

        >>> stage = users.stage()  # doctest: +SKIP
        >>> for part in parts:  # doctest: +SKIP
        ...     stage.load_state(part)
        >>> users.adopt(stage)  # doctest: +SKIP
        """
        with one_sentence():
            return Stage(self, _native.library().ops.ctrlab_embedding_stage(handle=self.resource_handle))

    def adopt(self, stage: Stage) -> None:
        """Replaces the content by that of a stage, at once. Every consumer's next cut then gives everything.

        Raises:
            CtrlabError: it is not a stage of this variable, or it was made before the optimizer was built.
        """
        if not isinstance(stage, Stage):
            raise CtrlabError(f"Embedding variable {self.name} adopts what its `stage` gave; received {stage!r}.")
        with one_sentence():
            _native.library().ops.ctrlab_embedding_adopt(handle=self.resource_handle, stage=stage.handle)

    @property
    def slot_names(self) -> tuple[str, ...]:
        """The slots of each row, in the optimizer's order; empty before an optimizer was built."""
        with one_sentence():
            stats = _native.library().ops.ctrlab_embedding_stats(handle=self.resource_handle)
        return tuple(name.decode() for name in stats.slot_names.numpy())

    def require_one_piece(self, served: bool = False) -> None:
        """Refuses a large table for files that can't be written in parts: SavedModel, `tf.train.Checkpoint`, .keras.

        Args:
            served: whether only keys and values are written.
        Raises:
            CtrlabError: the table is larger than 4 GB. Writing it would take two or three times that memory.
        """
        with keras_hooks.eagerly():  # a SavedModel's graph also calls this
            stats, slots = self.stats(), len(self.slot_names)
        size = stats.rows * (8 + 4 * self.dim)
        if not served:
            size += stats.rows * (16 + 4 * self.dim * slots) + 24 * stats.candidates + stats.filter_bytes
        if size > MOST_AT_ONCE:
            cures = ("save it by ctrlab.training.Checkpoints, which write in parts", "send its cuts to the server (`cut`)")
            raise CtrlabError(
                f"A SavedModel, a tf.train.Checkpoint and a .keras file take at most {MOST_AT_ONCE / 1e9:g} GB of a table, for "
                f"they are not written in parts; embedding variable {self.name} has {size / 1e9:,.1f} GB: {cures[served]}."
            )

    def __deepcopy__(self, memo):
        raise CtrlabError(
            f"An embedding variable has its rows in one native table, which copies would share; received copy.deepcopy of "
            f"{self.name}: make another variable, and load_state into it what state() gives of this one."
        )

    def before_export(self) -> None:
        self.require_one_piece()

    def saved_tensors(self) -> dict[str, tf.Tensor]:
        if tf.executing_eagerly():  # in graph mode a SavedModel is being written, and the check was made before
            self.require_one_piece()
        parts = export_all(self.resource_handle)
        return {name: getattr(parts, name) for name in SAVED}

    def restore_tensors(self, tensors: dict[str, tf.Tensor]):
        return import_tensors(self.resource_handle, tensors | {"removed": tf.zeros([0], tf.int64)}, WHOLE, "all")


def _require_consumer(name: str) -> None:
    if not isinstance(name, str):
        raise CtrlabError(f'A consumer of changes has a name, such as "server"; received {name!r}.')


def embedding_variables(model) -> list[EmbeddingVariable]:
    """The embedding variables of a Keras model or layer, in the order of its weights."""
    return [weight.table for weight in model.weights if isinstance(weight, Proxy)]


def close(model) -> None:
    """Closes the embedding variables of a Keras model or layer."""
    for table in embedding_variables(model):
        table.close()

"""What changed of an embedding variable since the version that a consumer confirmed, and a state that comes in parts.

A consumer (a saver of deltas, a server that is kept up to date) has a name. Its first cut is everything; each one after it is
what changed since the version that the consumer confirmed. Not confirmed, it is given again. The table keeps a log of changed
keys for its consumers, of at most max(65,536, rows) keys: one that falls behind that is given everything, and so is each one
after the table took another state.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from ctrlab import _native
from ctrlab.embedding.state import FIELDS, TableState
from ctrlab.errors import CtrlabError, choose
from ctrlab.ops.refusals import one_sentence

WHOLE = (0, 1)
"""Shard 0 of 1."""
PART_ROWS = 65_536


class Cut:
    """What a table held at one moment, or what had changed of it, to be read once, in parts; training goes on meanwhile.

    Rows that were in memory are copied, those below are held on the disk until the cut goes.

    Attributes:
        since: the consumer's version until now; None: this is everything.
        version: what the consumer confirms once it has it all.
        rows, candidates, filter_bytes, removed: how many of each all parts have together.
        slot_names: of the optimizer, in its order.
        dim: D.
    """

    def __init__(self, found, dim: int):
        self._handle = found.cut
        since, self.version, self.rows, self.candidates, self.filter_bytes, self.removed = found.numbers.numpy().tolist()
        self.since = None if since < 0 else since
        self.slot_names = tuple(name.decode() for name in found.slot_names.numpy())
        self.dim = dim
        self._read = False

    def parts(self, rows: int = PART_ROWS) -> Iterator[TableState]:
        """All of it, once: at most `rows` rows and as many candidates a part; filter and removed keys are in the first.

        Raises:
            CtrlabError: it was read before; the storage refuses a read.
        """
        if self._read:
            raise CtrlabError("The parts of a cut are read once; these were. Take another cut.")
        self._read = True
        done = False
        while not done:
            with one_sentence():
                part = _native.library().ops.ctrlab_embedding_cut_part(cut=self._handle, rows=rows)
            done = bool(part.done)
            yield state_of(part, self.slot_names)


class Stage:
    """An empty table like a variable's, for a state that comes in parts, which `EmbeddingVariable.adopt` puts in place at once.

    It has a storage of its own in the variable's folder, so the state may be larger than the memory.
    """

    def __init__(self, variable, handle):
        self.variable, self.handle = variable, handle

    def load_state(self, part: TableState, *, shard: tuple[int, int] = WHOLE, how: str = "more") -> None:
        """Takes a part of a state ("more"), or of changes of what it has taken ("changes"), as `EmbeddingVariable.load_state`."""
        take_state(self.handle, self.variable.name, self.variable.dim, part, shard, how)

    def state(self) -> TableState:
        """All that it has taken."""
        return exported(self.handle, WHOLE)

    def keys(self) -> int:
        """How many keys it has taken that have a row or are counted."""
        rows, candidates, *_ = _native.library().ops.ctrlab_embedding_stats(handle=self.handle).stats.numpy().tolist()
        return rows + candidates


def exported(handle: tf.Tensor, shard: tuple[int, int]) -> TableState:
    """All that the table behind a handle holds of a shard, at one moment."""
    with one_sentence():
        parts = export_all(handle, shard)
    return state_of(parts, tuple(name.decode() for name in parts.slot_names.numpy()))


def export_all(handle: tf.Tensor, shard: tuple[int, int] = WHOLE):
    """The same as tensors, in a graph or out of it."""
    return _native.library().ops.ctrlab_embedding_export(handle=handle, shard=tf.constant(shard, tf.int64))


def state_of(parts, slot_names: tuple[str, ...]) -> TableState:
    """The outputs of an op as a state: views of its tensors, which would otherwise be copied once more."""
    arrays = {name: np.asarray(memoryview(getattr(parts, name))) for name in FIELDS}
    return TableState(**arrays, slots=dict(zip(slot_names, np.asarray(memoryview(parts.slots)))))


def take_state(handle: tf.Tensor, name: str, dim: int, state: TableState, shard: tuple[int, int], how: str) -> None:
    """Puts a state into the table behind a handle.

    Args:
        how: "all": in place of everything; "more": besides it; "changes": as changes of what it is.
    Raises:
        CtrlabError: another dimension, other slots, a key twice, a count below 1, numbers that are not whole; nothing has changed
            then. UnknownName: no such `how`.
    """
    choose("way to take a state", how, ("all", "more", "changes"))
    slots = [np.asarray(array, np.float32) for array in state.slots.values()]
    if odd := [slot for slot, array in zip(state.slots, slots) if array.shape != np.shape(state.values)]:
        raise CtrlabError(f"Slots must be as values are, {np.shape(state.values)}; slot {odd[0]} of {name} is not.")
    parts = {field: _whole(name, field, getattr(state, field), dtype) for field, dtype in FIELDS.items() if field != "values"}
    parts |= {
        "values": np.asarray(state.values, np.float32),
        "slots": np.stack(slots) if slots else np.zeros((0, len(state.keys), dim), np.float32),
        "slot_names": tf.constant(list(state.slots), tf.string),
    }
    with one_sentence():
        import_tensors(handle, parts, shard, how)


def import_tensors(handle: tf.Tensor, parts, shard: tuple[int, int], how: str):
    return _native.library().ops.ctrlab_embedding_import(handle=handle, shard=tf.constant(shard, tf.int64), kind=how, **parts)


def _whole(name: str, field: str, numbers, dtype: type) -> np.ndarray:
    numbers = np.asarray(numbers)
    if numbers.size and not np.can_cast(numbers.dtype, dtype):
        raise CtrlabError(f"The {field} of {name} must be {np.dtype(dtype)}; received {numbers.dtype}: cast them.")
    return numbers.astype(dtype, copy=False)

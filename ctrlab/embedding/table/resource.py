"""Imports and exports the state of a native table by its handle, whole or for one shard."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ctrlab import _native
from ctrlab.embedding.table_state import FIELDS, TableState
from ctrlab.errors import CtrlabError, choose
from ctrlab.ops.refusals import one_sentence

WHOLE = (0, 1)
"""The shard that is the whole table: 0 of 1."""


def exported(handle: tf.Tensor, shard: tuple[int, int]) -> TableState:
    """The content of the table behind a handle, or of one shard of it, at one moment."""
    with one_sentence():
        parts = export_all(handle, shard)
    return state_of(parts, tuple(name.decode() for name in parts.slot_names.numpy()))


def export_all(handle: tf.Tensor, shard: tuple[int, int] = WHOLE):
    """Exports the content of a table as tensors, eagerly or in a graph."""
    return _native.library().ops.ctrlab_embedding_export(handle=handle, shard=tf.constant(shard, tf.int64))


def state_of(parts, slot_names: tuple[str, ...]) -> TableState:
    """An op's outputs as a state. The arrays are views of the tensors, to avoid another copy."""
    arrays = {name: np.asarray(memoryview(getattr(parts, name))) for name in FIELDS}
    return TableState(**arrays, slots=dict(zip(slot_names, np.asarray(memoryview(parts.slots)))))


def take_state(handle: tf.Tensor, name: str, dim: int, state: TableState, shard: tuple[int, int], how: str) -> None:
    """Puts a state into the table behind a handle.

    Args:
        how: "all" replaces the content; "more" adds to it; "changes" applies a delta to it.
    Raises:
        CtrlabError: no state, another dimension or other slots, a repeated key, a count below 1, or numbers that are not whole;
            the table is unchanged then. UnknownName: no such `how`.
    """
    if not isinstance(state, TableState):
        raise CtrlabError(f"Embedding variable {name} takes a TableState, as `state` gives it; received {state!r}.")
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

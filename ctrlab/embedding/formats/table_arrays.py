"""The file format of a table: named arrays that any safetensors reader can load, for a whole table or a delta.

A checkpoint holds a table named "item" as

    embedding/item/keys                int64 [n]       each key that has a row, once, in any order
    embedding/item/values              float32 [n, D]
    embedding/item/slot_<name>         float32 [n, D]  a slot of the optimizer, e.g. slot_m
    embedding/item/frequencies         int64 [n]       how often the key came in training
    embedding/item/steps               int64 [n]       the optimizer's step that last changed the row
    embedding/item/candidate_keys      int64 [m]       keys that are counted and have no row yet
    embedding/item/candidate_counts    int64 [m]
    embedding/item/candidate_steps     int64 [m]
    embedding/item/filter              uint8 [..]      the counters of a Bloom filter
    embedding/item/removed             int64 [r]       only in a delta: tombstones, keys evicted since the save before

A delta has every row and candidate that changed since the save before it, with its new content, and the whole filter. The last
word on a key wins: a key that a delta names, as row, candidate or tombstone, replaces whatever was known of it. `apply_delta`
and `merge_deltas` do only this, so merging is associative. Both define the result on whole states in memory; the real writers,
restorers and mergers work in parts of some megabytes.

Source: DeepRec's incremental checkpoints, where each delta holds everything since the full save and has no tombstones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ctrlab.embedding.formats.partition import concatenate, require_alike, take
from ctrlab.embedding.initial_values import hash_keys
from ctrlab.embedding.table_state import CANDIDATES, FIELDS, OTHERS, ROWS, TableState
from ctrlab.errors import BadData, CtrlabError

PREFIX = "embedding/"
SLOT = "slot_"
RANGES = (("frequencies", 0, 1 << 32), ("steps", 0, 1 << 31), ("candidate_counts", 1, 1 << 31), ("candidate_steps", 0, 1 << 31))
"""(array, lower bound, upper bound (exclusive)) of the values that a table accepts."""
PART_BYTES = 4 << 20
"""Approximate bytes per part of a table: rows, candidates, tombstones."""
MOST_SEEN = 1 << 20
"""At most this many keys of a table are compared with each other to find duplicates."""


def apply_delta(state: TableState, delta: TableState) -> TableState:
    """The table after the delta's changes.

    Raises:
        BadData: the two are not of one table.
    """
    require_alike(state, delta, "A table", "its delta")
    return replace(_overlay(state, delta), removed=np.zeros(0, np.int64))


def merge_deltas(deltas: Sequence[TableState]) -> TableState:
    """One delta with the effect of all, in order. A key that was removed and came back needs no tombstone.

    Raises:
        CtrlabError: the list is empty. BadData: they are not of one table.
    """
    if not deltas:
        raise CtrlabError("There must be at least one delta to merge; received none.")
    for i, other in enumerate(deltas[1:], 1):
        require_alike(deltas[0], other, "Delta 0", f"delta {i}")
    return functools.reduce(_overlay, deltas)


@dataclass(frozen=True)
class Sizes:
    """The sizes of a table, known before its arrays are. `ctrlab.embedding.table.cut.Cut` has the same attributes."""

    dim: int
    rows: int
    candidates: int
    filter_bytes: int
    removed: int
    slot_names: tuple[str, ...]


def rows_a_part(dim: int, slots: int) -> int:
    """The number of rows, candidates and tombstones in a part of a table."""
    return max(1, PART_BYTES // (24 + 4 * dim * (1 + slots) + 24 + 8))


def parts_of(state: TableState) -> Iterator[TableState]:
    """Splits a state into parts; the first has the filter. The state's arrays may be `Stored` in a file.

    A part's rows never precede another part's tombstones: files of older versions have tombstones of keys that came back.
    """
    size = rows_a_part(state.dim, len(state.slots))
    before = max(0, len(state.removed) - 1) // size  # parts that hold only tombstones
    for i in range(before + max(1, -(-max(len(state.keys), len(state.candidate_keys)) // size))):
        gone, here = slice(i * size, (i + 1) * size), slice(max(0, i - before) * size, max(0, i + 1 - before) * size)
        arrays = {name: getattr(state, name)[here] for name in ROWS | CANDIDATES}
        arrays |= {"filter": state.filter[: None if i == 0 else 0], "removed": state.removed[gone]}
        yield TableState(**arrays, slots={name: slot[here] for name, slot in state.slots.items()})


def whole(state: TableState) -> TableState:
    """The same state, loaded into memory."""
    arrays = {name: getattr(state, name)[:] for name in FIELDS}
    return TableState(**arrays, slots={name: slot[:] for name, slot in state.slots.items()})


def shapes_of(name: str, cut: Sizes, delta: bool = False) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
    """{array's name in the file: (dtype, shape)} of a table, before any of its parts exists."""
    sizes = dict.fromkeys(ROWS, cut.rows) | dict.fromkeys(CANDIDATES, cut.candidates) | {"filter": cut.filter_bytes}
    sizes |= {"removed": cut.removed} if delta else {}
    matrices = ["values", *(SLOT + slot for slot in cut.slot_names)]
    shapes = {field: (size,) for field, size in sizes.items()} | dict.fromkeys(matrices, (cut.rows, cut.dim))
    return {f"{PREFIX}{name}/{field}": (np.dtype(FIELDS.get(field, np.float32)), shape) for field, shape in shapes.items()}


def write_table(
    put: Callable[[str, np.ndarray], None], name: str, cut: Sizes, parts: Iterable[TableState], delta: bool = False
) -> None:
    """Writes a table part by part, in the form that `ctrlab.embedding.formats.tensor_file.writing` takes.

    Raises:
        BadData: the table contradicts itself: see `checked`. In addition, no tombstone may name a key that the table has.
    """
    for part in _checked(parts, cut.rows + cut.candidates + cut.removed, f"Table {name}", tombstones=True):
        for path, array in to_arrays(name, part, delta).items():
            put(path, array)


def checked(state: TableState, where: str) -> Iterator[TableState]:
    """Yields the parts of a state, each after it was validated, in constant memory.

    All counts and steps are checked. Duplicate keys (rows or candidates) are always found within a part. Between parts they are
    found if the state has at most a million keys. In a larger state only a sample of a million keys, chosen by hash, is compared:
    a single duplicate may pass, but an array that was never filled does not.

    Raises:
        BadData: the state is not valid for a table.
    """
    return _checked(parts_of(state), len(state.keys) + len(state.candidate_keys), where, tombstones=False)


def _checked(parts: Iterable[TableState], keys: int, where: str, tombstones: bool) -> Iterator[TableState]:
    every, seen = np.uint64(max(1, -(-keys // MOST_SEEN))), [np.zeros(0, np.int64)]
    for part in parts:
        for name, least, most in RANGES:
            numbers = getattr(part, name)
            if (odd := np.flatnonzero((numbers < least) | (numbers >= most))).size:
                of = part.candidate_keys if name in CANDIDATES else part.keys
                raise BadData(f"{where} has {name} in [{least}, {most}); key {of[odd[0]]} has {numbers[odd[0]]}.")
        here = np.concatenate([part.keys, part.candidate_keys, *([part.removed] if tombstones else [])])
        _require_once(here, where)
        seen.append(here[hash_keys(here) % every == 0])
        yield part
    _require_once(np.concatenate(seen), where)


def _require_once(keys: np.ndarray, where: str) -> None:
    keys = np.sort(keys)
    if (again := np.flatnonzero(keys[1:] == keys[:-1])).size:
        raise BadData(f"{where} has each key once, with a row, counted or removed; it has {keys[again[0]]} twice.")


def to_arrays(name: str, state: TableState, delta: bool = False) -> dict[str, np.ndarray]:
    """{array's name in the file: array}, without a copy if the dtype already fits."""
    arrays = {field: getattr(state, field) for field in FIELDS if delta or field != "removed"}
    arrays |= {SLOT + slot: array for slot, array in state.slots.items()}
    return {f"{PREFIX}{name}/{field}": np.asarray(a, FIELDS.get(field, np.float32)) for field, a in arrays.items()}


def from_arrays(arrays: Mapping[str, np.ndarray], where: str) -> dict[str, TableState]:
    """{table's name: state} of a file's arrays, in memory or `Stored`; arrays that are not of a table are ignored.

    Args:
        where: the file, for error messages.
    Raises:
        BadData: an array is missing, or does not match the format.
    """
    tables: dict[str, dict[str, np.ndarray]] = {}
    for path, array in arrays.items():
        if path.startswith(PREFIX):
            name, _, field = path.removeprefix(PREFIX).rpartition("/")
            tables.setdefault(name, {})[field] = array
    return {name: _state(fields, f"{where}: {PREFIX}{name}") for name, fields in tables.items()}


def require_fits(state: TableState, table: TableState, where: str) -> None:
    """Checks that a state can be loaded into a table, given any state of that table. A state without slots fits.

    Raises:
        CtrlabError: it does not fit; the message says why.
    """
    if state.dim != table.dim:
        raise CtrlabError(f"{where} has rows of dimension {state.dim} in the checkpoint and of {table.dim} in the model.")
    if state.slots and set(state.slots) != set(table.slots):
        there, here = sorted(state.slots), sorted(table.slots)
        raise CtrlabError(f"{where} has the slots {there} in the checkpoint and {here} in the model.")
    if (there := len(state.filter)) != (here := len(table.filter)):
        raise CtrlabError(f"{where} has a filter of {there} bytes in the checkpoint and of {here} in the model.")


def _overlay(old: TableState, new: TableState) -> TableState:
    named = np.concatenate([new.keys, new.candidate_keys, new.removed])
    kept = take(old, *(~np.isin(keys, named) for keys in (old.keys, old.candidate_keys)), old.removed)
    both = concatenate([kept, new])
    here = np.concatenate([both.keys, both.candidate_keys])
    return replace(both, removed=np.setdiff1d(both.removed, here))


def _state(fields: dict[str, np.ndarray], where: str) -> TableState:
    fields = {"removed": np.zeros(0, np.int64), **fields}
    slots = {field.removeprefix(SLOT): array for field, array in fields.items() if field.startswith(SLOT)}
    if odd := sorted(set(fields) - {SLOT + slot for slot in slots} ^ set(FIELDS)):
        raise BadData(f"{where}/{odd[0]} " + ("is missing." if odd[0] in FIELDS else "is no array of this format's."))
    shape = fields["values"].shape
    if len(shape) != 2 or shape[1] == 0:
        raise BadData(f"{where}/values must be of shape [n, D]; it is {list(shape)}.")
    n, m = shape[0], fields["candidate_keys"].size
    for field, array in fields.items():
        matrix = field == "values" or field.startswith(SLOT)
        length = m if field in CANDIDATES else array.size if field in OTHERS else n
        expected, dtype = (shape if matrix else (length,)), np.dtype(FIELDS.get(field, np.float32))
        if (array.shape, array.dtype) != (expected, dtype):
            received = f"{array.dtype} {list(array.shape)}"
            raise BadData(f"{where}/{field} must be {dtype} {list(expected)}; it is {received}.")
    return TableState(**{field: fields[field] for field in FIELDS}, slots=slots)

"""Merges the saves of a chain into one with the embedding engine, so that only the index of keys is in memory.

A table with storage in the folder `.merging`, beside the result, takes the files one after the other. Its content is then
written out and the folder is deleted. For deltas, a second table without rows counts the tombstones: a key stays a tombstone
as long as no later delta has a row or a count for it. `merge_deltas` and `apply_delta` of
`ctrlab.embedding.formats.table_arrays` define the result.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ctrlab.embedding.formats.folder_lock import take
from ctrlab.embedding.formats.saves import Link, Save
from ctrlab.embedding.formats.table_arrays import Sizes, checked, rows_a_part, shapes_of, write_table
from ctrlab.embedding.formats.tensor_file import Stored, writing
from ctrlab.embedding.options import Options, Storage
from ctrlab.embedding.table.cut import Stage
from ctrlab.embedding.table.resource import WHOLE
from ctrlab.embedding.table_state import TableState
from ctrlab.embedding.variable import EmbeddingVariable
from ctrlab.errors import BadData

CONSUMER = "merge"
SCRATCH = ".merging"
MEMORY = 16 << 20
"""Bytes of rows that a table holds in memory during a merge; all other rows are on disk."""


def merge(
    links: Sequence[Link],
    save: Save,
    out: Path,
    others: Mapping[str, np.ndarray | Stored] | None = None,
    filters: Mapping[str, np.ndarray] | None = None,
) -> Path:
    """Merges consecutive saves into one save in the folder `out`; `save` is the metadata of the result.

    Args:
        others: arrays that do not belong to tables; None: those of the last save.
        filters: {table: the counters of its Bloom filter}; None: those of the last save.
    Raises:
        BadData: a table in them contradicts itself. CtrlabError: another process writes into `out`, or the disk refuses.
        OSError: the disk refuses.
    """
    with take(out, save.name):
        try:
            _merge(links, save, out, others or links[-1].others, filters or {})
        finally:
            shutil.rmtree(out / SCRATCH, ignore_errors=True)
    return out / save.name


def fill(stage: Stage, state: TableState, where: str, save: Save, shard: tuple[int, int] = WHOLE) -> None:
    """Adds a save's content for one table to `stage`, part by part: a full state, or changes to what `stage` holds.

    Args:
        shard: (j, N) selects the keys with hash(key) mod N == j.

    Raises:
        BadData: the content is not valid for a table.
    """
    slots, before = stage.variable.slot_names if state.slots else (), stage.keys()
    for part in checked(state, where):
        wanted = replace(part, slots={name: part.slots[name] for name in slots})
        stage.load_state(wanted, shard=shard, how="changes" if save.number else "more")
    keys = len(state.keys) + len(state.candidate_keys)
    if shard == WHOLE and not save.number and (found := stage.keys() - before) != keys:
        raise BadData(f"{where} has each key once; of {keys:,} keys only {found:,} differ.")


def _merge(links: Sequence[Link], save: Save, out: Path, others: Mapping, filters: Mapping) -> None:
    tables = {
        name: _Merged(links, save, name, out / SCRATCH / str(number), filters.get(name))
        for number, name in enumerate(links[0].tables)
    }
    shapes = {name: (array.dtype, array.shape) for name, array in others.items()}
    for name, table in tables.items():
        shapes |= shapes_of(name, table.sizes, bool(save.number))
    with writing(out / save.name, shapes, save.to_metadata()) as put:
        for name, array in others.items():
            for piece in array.parts() if isinstance(array, Stored) else (array,):
                put(name, piece)
        for name, table in tables.items():
            write_table(put, name, table.sizes, table.parts(), bool(save.number))


class _Merged:
    """One table of the merged save."""

    def __init__(self, links: Sequence[Link], save: Save, name: str, scratch: Path, filter: np.ndarray | None):
        states = [link.tables[name] for link in links]
        dim, slot_names = states[0].dim, tuple(states[0].slots)
        self._filter = states[-1].filter[:] if filter is None else filter
        storage = Storage(str(scratch), memory_rows=max(1, MEMORY // (4 * dim * (1 + len(slot_names)))))
        table, gone = EmbeddingVariable("rows", dim, Options(storage=storage)), EmbeddingVariable("removed", 1)
        table.set_slots(dict.fromkeys(slot_names, 0.0))
        stage = table.stage()
        for link, state in zip(links, states):
            fill(stage, replace(state, filter=state.filter[:0]), f"{link.path}: table {name}", link.save)
            if save.number:
                _note_removed(gone, state)
        table.adopt(stage)
        self._rows, self._gone = table.cut(CONSUMER), gone.cut(CONSUMER)
        rows, candidates, removed = self._rows.rows, self._rows.candidates, self._gone.candidates
        self.sizes = Sizes(dim, rows, candidates, len(self._filter), removed, slot_names)

    def parts(self) -> Iterator[TableState]:
        for i, part in enumerate(self._rows.parts(rows=rows_a_part(self.sizes.dim, len(self.sizes.slot_names)))):
            part.filter = self._filter if i == 0 else self._filter[:0]
            yield part
        for part in self._gone.parts():
            yield _only(self.sizes.dim, self.sizes.slot_names, removed=part.candidate_keys)


def _note_removed(gone: EmbeddingVariable, state: TableState) -> None:
    for keys in state.removed.parts():
        keys = np.unique(keys)
        counted = {"candidate_keys": keys, "candidate_counts": np.ones_like(keys), "candidate_steps": np.zeros_like(keys)}
        gone.load_state(_only(1, **counted), how="changes")
    for here in (state.keys, state.candidate_keys):
        for keys in here.parts():
            gone.load_state(_only(1, removed=keys), how="changes")


def _only(dim: int, slot_names: Sequence[str] = (), **arrays: np.ndarray) -> TableState:
    """A state without rows."""
    none, values = np.zeros(0, np.int64), np.zeros((0, dim), np.float32)
    return TableState(none, values, dict.fromkeys(slot_names, values), none, none, **arrays)

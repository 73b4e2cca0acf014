"""Reads what several workers saved: for any number of workers, each of which takes its part, or into one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ctrlab import whole_batch
from ctrlab.distributed.manifest import Common, read_manifest
from ctrlab.embedding.formats.merging import fill, merge
from ctrlab.embedding.formats.saves import OF_WORKERS, Link, Save, open_save, paths_in, places_of
from ctrlab.embedding.formats.table_arrays import require_fits
from ctrlab.errors import BadData, CtrlabError
from ctrlab.training.generators import set_generators
from ctrlab.training.restoring import state_variables, tables_of
from ctrlab.whole_batch import Shard


@dataclass
class Ready:
    """What a worker takes of a save, read and checked."""

    save: Save
    dense: list
    tables: list
    generators: Mapping[str, np.ndarray]

    def take(self) -> None:
        for variable, value in self.dense:
            variable.assign(value)
        for table, stage in self.tables:
            table.adopt(stage)
        set_generators(self.generators)


def read_save(base: Path, common: Common, shard: Shard, model, optimizer, run: Mapping[str, str]) -> Ready:
    """A worker's part of a save that any number of workers wrote.

    Raises:
        BadData: a file is missing or damaged. CtrlabError: the save is of another model or of other settings.
    """
    same = common.workers == shard.count
    folders = common.folders(base)
    chains = [_chain(folders[i], common.ids[i]) for i in ([shard.index] if same else range(common.workers))]
    first = chains[0][-1]
    for name, value in run.items():
        if (saved := first.save.run.get(name)) != value:
            raise CtrlabError(f"A run goes on with the same {name}; {first.path} has {saved}, now it is {value}.")
    variables, tables = state_variables(model, optimizer), tables_of(model)
    generators = {n: a for n, a in first.others.items() if n.startswith("generators/")}
    for here, there in ((variables, first.others.keys() - generators.keys()), (tables, first.tables)):
        if odd := sorted(set(there) ^ set(here)):
            where = "the checkpoint" if odd[0] in there else "the model"
            raise CtrlabError(f"{first.path} is of another model: {odd[0]!r} is only in {where} ({len(odd)} such names).")
    dense = []
    for name, variable in variables.items():
        of_all = [chain[-1].others[name] for chain in chains]
        # One worker has tables whole, and none of them is said to be sharded.
        apart = not same and (whole_batch.is_sharded(variable) or name in common.sharded)
        value = _rows([a.read() for a in of_all], shard) if apart else of_all[0].read()
        if value.shape != tuple(variable.shape) or value.dtype != np.dtype(variable.dtype):
            there, here = f"{value.dtype} {value.shape}", f"{variable.dtype} {tuple(variable.shape)}"
            raise CtrlabError(f"{first.path} is of another model: {name} is {there} in the checkpoint and {here} in the model.")
        dense.append((variable, value))
    stages = []
    for name, table in tables.items():
        stage = table.stage()
        require_fits(first.tables[name], stage.state(), f"{first.path} is of another model: table {name}")
        _fill(stage, name, chains, (0, 1) if same else (shard.index, shard.count))
        stages.append((table, stage))
    return Ready(first.save, dense, stages, {n.removeprefix("generators/"): a.read() for n, a in generators.items()})


def _chain(folder: Path, id: str) -> list[Link]:
    places = places_of([path for _, path in paths_in(folder)])
    if id not in places:
        raise BadData(f"{folder} lacks save {id}, which {OF_WORKERS} names.")
    return open_save(places[id], places)


def _rows(of_all: Sequence[np.ndarray], shard: Shard) -> np.ndarray:
    """A shard's rows of a table, whose row r lies in `of_all[r % count][r // count]`."""
    count = len(of_all)
    rows = np.arange(shard.index, sum(map(len, of_all)), shard.count)
    found = np.empty((len(rows), *of_all[0].shape[1:]), of_all[0].dtype)
    for i, array in enumerate(of_all):
        here = rows % count == i
        found[here] = array[rows[here] // count]
    return found


def _fill(stage, name: str, chains: Sequence[Sequence[Link]], shard: tuple[int, int]) -> None:
    """Puts a shard of a table into its stage. A Bloom filter's counter belongs to keys of many shards, and takes its largest."""
    last, filters = chains[-1][-1], _filter(name, chains)
    for link in (link for chain in chains for link in chain):
        state = replace(link.tables[name], filter=filters if link is last else filters[:0])
        fill(stage, state, f"{link.path}: table {name}", link.save, shard)


def _filter(name: str, chains: Sequence[Sequence[Link]]) -> np.ndarray:
    return np.maximum.reduce([np.asarray(chain[-1].tables[name].filter[:]) for chain in chains])


def merge_workers(base: Path, out: Path) -> Path:
    """Merges the last save of all workers in folder `base` into one full save in the folder `out`, for exports.

    A training goes on from the workers' own: rows were dealt out to them in another order than one process reads them in.

    Raises:
        BadData: no save can be read. CtrlabError: another run or merge writes into `out`. OSError: the disk refuses.
    """
    problems = []
    for common in read_manifest(base):
        try:
            chains = [_chain(place, id) for place, id in zip(common.folders(base), common.ids)]
        except BadData as problem:
            problems.append(str(problem))
            continue
        last = chains[0][-1]
        others = {name: array.read() for name, array in last.others.items()}
        for name in common.sharded:
            others[name] = _rows([chain[-1].others[name].read() for chain in chains], whole_batch.WHOLE)
        run = last.save.run | {"data": f"{last.save.run.get('data', 'rows')}, dealt out to workers"}
        links = [link for chain in chains for link in chain]
        filters = {name: _filter(name, chains) for name in last.tables}
        return merge(links, Save.full(common.step, common.position, run, last.save.model), out, others, filters)
    raise BadData(f"Folder {base} has no save that all workers have written. {' '.join(problems)}".rstrip())

"""Checkpoints of several workers: each writes its shard, and one manifest makes them one save.

    folder/workers.json                               the last whole saves, newest first: see `Common`
    folder/worker-0-of-4/step-000000300.safetensors   worker 0's rows, and what every worker has whole
    folder/worker-1-of-4/step-000000300.safetensors   worker 1's rows

A worker's folder is that of a process alone: full saves and deltas, each file whole or not there. When all have written theirs,
the first worker puts the save into the manifest. A worker that dies before leaves a save that nobody uses. So the folder must be
one that all workers see.

Any number of workers goes on from a save: each reads its own rows from the files of all.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from ctrlab import whole_batch
from ctrlab.embedding.formats.merging import fill, merge
from ctrlab.embedding.formats.saves import Link, Save, files_in, open_save, paths_in, places_of
from ctrlab.embedding.formats.table_arrays import require_fits
from ctrlab.errors import BadData, CtrlabError, unreadable
from ctrlab.tensors import read_metadata, write_durably
from ctrlab.training.checkpoint import OF_WORKERS, CheckpointError, Checkpoints
from ctrlab.training.generators import set_generators
from ctrlab.training.restoring import Restored, state_variables, tables_of
from ctrlab.whole_batch import Shard

FOLDER = "worker-{}-of-{}"
FOLDERS = re.compile(r"worker-(\d+)-of-(\d+)")
POLL_SECONDS = 0.05
LOOKS = 40
"""For a file, before it is asked whether its worker is still there."""


@dataclass(frozen=True)
class Common:
    """A save of all workers.

    Attributes:
        step, position: as of `Save`.
        history: (workers, steps) of the training until then, in order; the last are those that wrote it.
        ids: the id of each worker's save.
        sharded: the names of arrays of which each has its rows.
    """

    step: int
    position: int
    history: tuple[tuple[int, int], ...]
    ids: tuple[str, ...]
    sharded: tuple[str, ...] = ()

    @property
    def workers(self) -> int:
        return len(self.ids)

    def folders(self, folder: Path) -> list[Path]:
        return [folder / FOLDER.format(i, self.workers) for i in range(self.workers)]


def read_manifest(folder: Path) -> list[Common]:
    """The saves that all workers have written, newest first; none if there is no manifest.

    Raises:
        BadData: it is damaged. CtrlabError: it can't be read now.
    """
    path = folder / OF_WORKERS
    try:
        found = json.loads(path.read_bytes())["saves"]
        fields = ("history", "ids", "sharded")
        return [Common(s["step"], s["position"], *(tuple(map(_frozen, s[name])) for name in fields)) for s in found]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(str(path), error) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadData(f"{path} says which saves are whole; it is damaged, and without it no save can be used.") from None


def _frozen(value):
    return tuple(value) if isinstance(value, list) else value


class SharedCheckpoints(Checkpoints):
    """What one of several workers saves, as `Checkpoints` does, and the manifest of all. All workers make it and save together.

    Args:
        workers: the `Workers`.
        folder: of all workers' folders, which all of them see.
        model, optimizer, options: as of `Checkpoints`.
    Attributes:
        history: (workers, steps) of the training before this run.
    Raises:
        CtrlabError: as of `Checkpoints`; the folder has checkpoints of a process alone.
    """

    def __init__(self, workers, folder, model, optimizer, *, keep: int = 3, resume: bool = False, **options):
        self.workers, self.base, self.history = workers, Path(folder), ()
        self._ends = threading.Event()
        if files_in(self.base) if self.base.is_dir() else ():
            raise CheckpointError(f"Folder {self.base} holds checkpoints of a process alone: name another for those of workers.")
        found = read_manifest(self.base)
        if not (self.base / OF_WORKERS).exists() and any(_saves_in(self.base)):
            raise CheckpointError(
                f"A training of several workers goes on by {self.base / OF_WORKERS}, which is missing, though the workers' "
                "saves are there: put it back, or name another folder to begin anew."
            )
        if found and not resume:
            raise CheckpointError(
                f"Folder {self.base} holds checkpoints of an earlier run, up to step {found[0].step}; resume it, or name another."
            )
        shard = workers.shard
        own = self.base / FOLDER.format(shard.index, shard.count)
        # A worker may be one save ahead of the manifest.
        super().__init__(own, model, optimizer, keep=max(keep, 2), resume=resume, **options)

    def __exit__(self, kind, exception, trace) -> None:
        if exception is not None:
            self._ends.set()
        super().__exit__(kind, exception, trace)

    def _resume(self, resume: bool) -> None:
        common, self.restored = self._restore(read_manifest(self.base))
        kept = self.folder if common and common.workers == self.workers.shard.count else None
        for step, path in paths_in(self.folder):
            if kept is None or step > common.step:  # of a save that not all workers have written
                path.unlink()
        if common:
            self.history, self.position = common.history, common.position
            for table in self._tables.values():
                table.caught_up(self._consumer)
        elif self.workers.first:
            self._put([])  # from now on a folder without a manifest is one from which it was taken
        self.workers.agree({"checkpoint": f"step {common.step}" if common else "none"})

    def _restore(self, saves: Sequence[Common]) -> tuple[Common | None, Restored | None]:
        """Restores the newest save that all workers can read."""
        problems: list[str] = []
        for common in saves:
            ready, problem = None, ""
            try:
                ready = _read(self.base, common, self.workers.shard, self.model, self.optimizer, self.run)
            except BadData as error:
                problem = str(error)
            said = self.workers.gathered(np.frombuffer(problem.encode(), np.uint8))
            found = [each.tobytes().decode() for each in said if each.size]
            if not found:
                ready.take()
                path = common.folders(self.base)[0]
                return common, Restored(path, ready.save, tuple(problems))
            problems += found
        if saves:
            raise BadData(f"Folder {self.base} has no save that all workers can read. {' '.join(problems)}")
        return None, None

    def _write(self, save: Save, cuts, arrays: dict[str, np.ndarray]) -> None:
        super()._write(save, cuts, arrays)
        if self.workers.first:
            self._commit(save)

    def _commit(self, save: Save) -> None:
        """Waits for the others' files, then names them in the manifest."""
        count = self.workers.shard.count
        history = (*self.history, (count, save.position - sum(steps for _, steps in self.history)))
        ids = tuple(self._id_of(folder, save) for folder in Common(0, 0, (), ("",) * count).folders(self.base))
        sharded = [name for name, v in state_variables(self.model, self.optimizer).items() if whole_batch.is_sharded(v)]
        common = Common(save.step, save.position, _joined(history), ids, tuple(sharded))
        earlier = [each for each in read_manifest(self.base) if each.step < save.step]
        saves = [common, *earlier][: self.keep - 1]
        self._put(saves)
        needed = {folder.name for each in saves for folder in each.folders(self.base)}
        for folder in _folders_in(self.base):
            if folder.name not in needed:
                shutil.rmtree(folder, ignore_errors=True)

    def _put(self, saves: Sequence[Common]) -> None:
        write_durably(self.base / OF_WORKERS, [json.dumps({"saves": [asdict(each) for each in saves]}).encode()])

    def _id_of(self, folder: Path, save: Save) -> str:
        looked = 0
        while True:
            for name in (replace(save, number=0).name, replace(save, number=1).name):
                with contextlib.suppress(BadData):
                    found = Save.from_metadata(read_metadata(folder / name), folder / name)
                    if found.position == save.position:
                        return found.id
            looked += 1
            lost = looked % LOOKS == 0 and folder.name in {
                FOLDER.format(i, self.workers.shard.count) for i in self.workers.missing()
            }
            if self._ends.wait(POLL_SECONDS) or lost:
                raise CheckpointError(
                    f"A save is whole when all workers have written theirs; {folder} has none of step {save.step}, and the "
                    "training ends: it goes on from the save before."
                )


def _folders_in(base: Path) -> list[Path]:
    return [folder for folder in base.iterdir() if FOLDERS.fullmatch(folder.name)] if base.is_dir() else []


def _saves_in(base: Path) -> Iterator[Path]:
    return (path for folder in _folders_in(base) for _, path in paths_in(folder))


def _joined(history: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The same with one entry for each change of the number of workers."""
    found: list[tuple[int, int]] = []
    for workers, steps in history:
        if found and found[-1][0] == workers:
            steps += found.pop()[1]
        found.append((workers, steps))
    return tuple(found)


@dataclass
class _Ready:
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


def _read(base: Path, common: Common, shard: Shard, model, optimizer, run: Mapping[str, str]) -> _Ready:
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
    return _Ready(first.save, dense, stages, {n.removeprefix("generators/"): a.read() for n, a in generators.items()})


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


def merge_workers(folder: Path, out: Path) -> Path:
    """Merges the last save of all workers into one full save in the folder `out`, for exports.

    A training goes on from the workers' own: rows were dealt out to them in another order than one process reads them in.

    Raises:
        BadData: no save can be read. CtrlabError: another run or merge writes into `out`. OSError: the disk refuses.
    """
    problems = []
    for common in read_manifest(folder):
        try:
            chains = [_chain(place, id) for place, id in zip(common.folders(folder), common.ids)]
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
    raise BadData(f"Folder {folder} has no save that all workers have written. {' '.join(problems)}".rstrip())

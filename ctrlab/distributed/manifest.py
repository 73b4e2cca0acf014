"""The manifest: the one file that lists the saves that all workers have written, and so makes their files one save."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ctrlab import whole_batch
from ctrlab.embedding.formats.merging import merge
from ctrlab.embedding.formats.saves import OF_WORKERS, Link, Save, open_save, paths_in, places_of
from ctrlab.embedding.formats.tensor_file import write_durably
from ctrlab.errors import BadData, unreadable
from ctrlab.plain import Plain
from ctrlab.training.restoring import filter_of, rows_of

FOLDERS = re.compile(r"worker-(\d+)-of-(\d+)")


@dataclass(frozen=True)
class Common:
    """A save of all workers.

    Attributes:
        step, position: as in `Save`.
        history: (workers, steps) of the training until then, in order; the last entry is that of the workers that wrote the save.
        ids: the id of each worker's save.
        sharded: the names of arrays of which each worker has its own rows.
    """

    step: int
    position: int
    history: tuple[tuple[int, int], ...]
    ids: tuple[str, ...]
    sharded: tuple[str, ...]

    def __post_init__(self):
        wrote = self.history and self.history[-1][0] == len(self.ids) > 0
        if not (wrote and self.step >= 0 and sum(steps for _, steps in self.history) == self.position):
            raise ValueError("a save was written by as many workers as its history ends with, after as many steps as it has")

    @property
    def workers(self) -> int:
        return len(self.ids)

    def folders(self, base: Path) -> list[Path]:
        return [folder_of(base, i, self.workers) for i in range(self.workers)]

    def chains(self, base: Path, workers: Iterable[int] | None = None) -> list[list[Link]]:
        """The chains of these workers (None: of all): for each, its full save and the deltas up to this save.

        Raises:
            BadData: a file is missing or damaged.
        """
        return [self._chain(folder_of(base, i, self.workers), self.ids[i]) for i in workers or range(self.workers)]

    def _chain(self, folder: Path, id: str) -> list[Link]:
        places = places_of([path for _, path in paths_in(folder)])
        if id not in places:
            raise BadData(f"{folder} lacks save {id}, which {OF_WORKERS} names.")
        return open_save(places[id], places)


@dataclass(frozen=True)
class Manifest(Plain):
    saves: tuple[Common, ...]


def folder_of(base: Path, worker: int, workers: int) -> Path:
    """The folder of one of several workers."""
    return base / f"worker-{worker}-of-{workers}"


def read_manifest(folder: Path) -> list[Common]:
    """The saves that all workers have written, newest first; none if there is no manifest.

    Raises:
        BadData: it is damaged. CtrlabError: it can't be read now.
    """
    path = folder / OF_WORKERS
    try:
        return list(Manifest.from_json(json.loads(path.read_bytes())).saves)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(str(path), error) from None
    except (ValueError, BadData, RecursionError):
        raise BadData(f"{path} says which saves are whole; it is damaged, and without it no save can be used.") from None


def write_manifest(base: Path, saves: Sequence[Common]) -> None:
    write_durably(base / OF_WORKERS, [json.dumps(Manifest(tuple(saves)).to_json()).encode()])


def folders_in(base: Path) -> list[Path]:
    """The folders of workers below a folder, for any number of workers."""
    return [folder for folder in base.iterdir() if FOLDERS.fullmatch(folder.name)] if base.is_dir() else []


def saves_in(base: Path) -> Iterator[Path]:
    """The checkpoint files in the folders of workers."""
    return (path for folder in folders_in(base) for _, path in paths_in(folder))


def merge_workers(base: Path, out: Path) -> Path:
    """Merges the last save of all workers in folder `base` into one full save in the folder `out`, for exports.

    A training must resume from the workers' own files, because rows were dealt out to them in another order than one process
    reads them.

    Raises:
        BadData: no save can be read. CtrlabError: another run or merge writes into `out`. OSError: the disk refuses.
    """
    problems = []
    for common in read_manifest(base):
        try:
            chains = common.chains(base)
        except BadData as problem:
            problems.append(str(problem))
            continue
        last = chains[0][-1]
        others = {name: array.read() for name, array in last.others.items()}
        for name in common.sharded:
            others[name] = rows_of([chain[-1].others[name].read() for chain in chains], whole_batch.WHOLE)
        run = last.save.run | {"data": f"{last.save.run.get('data', 'rows')}, dealt out to workers"}
        links = [link for chain in chains for link in chain]
        filters = {name: filter_of(name, chains) for name in last.tables}
        return merge(links, Save.full(common.step, common.position, run, last.save.model), out, others, filters)
    raise BadData(f"Folder {base} has no save that all workers have written. {' '.join(problems)}".rstrip())

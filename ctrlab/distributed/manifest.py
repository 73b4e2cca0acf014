"""Which saves all workers have written: the one file that makes their files one save."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ctrlab.embedding.formats.saves import OF_WORKERS, paths_in
from ctrlab.embedding.formats.tensor_file import write_durably
from ctrlab.errors import BadData, unreadable
from ctrlab.plain import Plain

FOLDERS = re.compile(r"worker-(\d+)-of-(\d+)")


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


@dataclass(frozen=True)
class Manifest(Plain):
    saves: tuple[Common, ...]


def folder_of(base: Path, worker: int, workers: int) -> Path:
    """Where one of several workers saves."""
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
    """The folders of workers, of any number of them."""
    return [folder for folder in base.iterdir() if FOLDERS.fullmatch(folder.name)] if base.is_dir() else []


def saves_in(base: Path) -> Iterator[Path]:
    """The files in them."""
    return (path for folder in folders_in(base) for _, path in paths_in(folder))

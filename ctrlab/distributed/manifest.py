"""Which saves all workers have written: the one file that makes their files one save."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ctrlab.embedding.formats.saves import OF_WORKERS, paths_in
from ctrlab.errors import BadData, unreadable
from ctrlab.tensors import write_durably

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

    @property
    def workers(self) -> int:
        return len(self.ids)

    def folders(self, base: Path) -> list[Path]:
        return [folder_of(base, i, self.workers) for i in range(self.workers)]


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


def write_manifest(base: Path, saves: Sequence[Common]) -> None:
    write_durably(base / OF_WORKERS, [json.dumps({"saves": [asdict(each) for each in saves]}).encode()])


def folders_in(base: Path) -> list[Path]:
    """The folders of workers, of any number of them."""
    return [folder for folder in base.iterdir() if FOLDERS.fullmatch(folder.name)] if base.is_dir() else []


def saves_in(base: Path) -> Iterator[Path]:
    """The files in them."""
    return (path for folder in folders_in(base) for _, path in paths_in(folder))

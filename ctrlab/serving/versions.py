"""The version folders of a served model: models/ctr/1, models/ctr/2, ...

A version is written into a hidden folder, synced and renamed. A deletion begins with a hidden name. So a folder whose name is a
number is always complete, even after kills. Servers ignore all other names but models/ctr/1.updates, which a publisher makes
before version 1 appears (`ctrlab.serving.publishing`).
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from ctrlab.embedding.formats.folder_lock import FolderLock
from ctrlab.embedding.formats.tensor_file import make_folder, sync_folder
from ctrlab.errors import CtrlabError, cure_of, unreadable

LEFTOVER, UPDATES = ".version-", ".updates"
MOST = (1 << 63) - 1
NUMBER = re.compile(r"[1-9][0-9]{0,18}")


def versions(folder: Path) -> list[int]:
    """The versions in a model's folder, ascending; none if there is no such folder.

    Raises:
        BadData, CtrlabError: the path is not a folder, or can't be opened.
    """
    try:
        names = [entry.name for entry in os.scandir(folder) if entry.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(f"Folder {folder}", error) from None
    return sorted(int(name) for name in names if NUMBER.fullmatch(name) and int(name) <= MOST)


@contextlib.contextmanager
def new_version(folder: Path, number: int | None = None) -> Iterator[tuple[int, Path]]:
    """The number of a new version, and a folder to write it into. When the block ends, the version appears complete.

    If the block raises, nothing has changed. Leftovers of killed exports and publishers are deleted first. Otherwise updates
    whose version never appeared could be taken for this version's.

    Args:
        number: in [1, 2^63); None: one more than the newest.
    Raises:
        CtrlabError: this version exists; another export writes into the folder; the disk refuses. If it refuses
            the last sync, the version has appeared, and its number is used up.
    """
    folder = Path(folder)
    if number is not None and (type(number) is not int or not 1 <= number <= MOST):
        raise CtrlabError(f"The version must be a whole number in [1, 2^63); received {number!r}.")
    try:
        make_folder(folder)
        with FolderLock(folder):
            sweep(folder)
            there = versions(folder)
            number = number or max(there, default=0) + 1
            if number > MOST:
                raise CtrlabError(f"Versions end below 2^63, and {folder / str(MOST)} exists: name another number.")
            if number in there:
                raise CtrlabError(f"A version is never overwritten; {folder / str(number)} exists: name another, or none.")
            part = _hidden(folder)
            part.mkdir()
            try:
                yield number, part
                _sync(part)
                if os.path.lexists(folder / str(number)):  # an empty folder would be replaced
                    raise CtrlabError(f"A version is never overwritten; {folder / str(number)} has come meanwhile: export again.")
                os.rename(part, folder / str(number))
            except BaseException:
                shutil.rmtree(part, ignore_errors=True)
                raise
            sync_folder(folder)
    except OSError as error:
        why = f"A version could not be written to {folder}: {error.strerror or error}"
        raise CtrlabError(
            f"{why}; earlier ones are as they were; {cure_of(error, 'free some space or name another folder')}."
        ) from None


def hide(folder: Path, number: int) -> None:
    """Hides a version at once; `sweep` deletes it. The caller holds the folder's lock."""
    os.rename(folder / str(number), _hidden(folder))
    sync_folder(folder)


def sweep(folder: Path) -> None:
    """Deletes hidden versions, and updates whose version is gone. The caller holds the folder's lock.

    Raises:
        OSError: the disk refuses.
    """
    for left in list(folder.iterdir()):
        number = left.name.removesuffix(UPDATES)
        orphan = number != left.name and NUMBER.fullmatch(number) and left.is_dir() and not os.path.lexists(folder / number)
        if orphan or left.name.startswith(LEFTOVER):
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()


def _hidden(folder: Path) -> Path:
    return folder / f"{LEFTOVER}{secrets.token_hex(8)}"


def _sync(folder: Path) -> None:
    for place, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(place))

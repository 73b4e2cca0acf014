"""The version folders of a served model: models/ctr/1, models/ctr/2, ...

A version is written into a hidden folder, synced and renamed. A deletion begins with a hidden name. So a folder whose name is a
number is always complete, even after kills. Servers ignore all other names but models/ctr/1.updates, which a publisher makes
before version 1 appears (`ctrlab.serving.publishing`); `ignored` says why.

A number is never used twice, because logs, labels and clients name a version by it. The file `LAST` holds the highest one that
was ever given, so a deleted version's number does not come again; if that file was deleted, too, those of labels do not. If
the whole folder is wiped, numbers begin at 1 again; a publisher goes on above its own, and servers tell versions apart by their
files.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from ctrlab.embedding.formats.folder_lock import FolderLock
from ctrlab.embedding.formats.tensor_file import make_folder, sync_folder
from ctrlab.errors import BadData, CtrlabError, cure_of, unreadable
from ctrlab.serving.label_file import MOST, read_labels
from ctrlab.serving.manifest import NAME as MANIFEST

LEFTOVER, UPDATES = ".version-", ".updates"
LAST = ".last_version"
NUMBER = re.compile(r"[1-9][0-9]{0,18}")


def versions(folder: Path) -> list[int]:
    """The versions in a model's folder, ascending; none if there is no such folder.

    Raises:
        BadData, CtrlabError: the path is not a folder, or can't be opened.
    """
    try:
        names = [entry.name for entry in os.scandir(folder) if os.path.isdir(entry)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(f"Folder {folder}", error) from None
    return sorted(_numbers(names))


def _numbers(names: Iterable[str]) -> list[int]:
    return [int(name) for name in names if NUMBER.fullmatch(name) and int(name) <= MOST]


def ignored(folder: Path) -> dict[str, str]:
    """{name: why} for folders in a model's folder that are neither versions nor hidden, and for files that look like versions.

    Raises:
        CtrlabError: the folder can't be read.
    """
    try:
        entries = {entry.name: os.path.isdir(entry) for entry in os.scandir(folder) if not entry.name.startswith(".")}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise unreadable(f"Folder {folder}", error) from None
    found = {}
    for name, is_folder in sorted(entries.items()):
        place, digits = Path(folder) / name, name.isdecimal() and name.isascii()
        base = name.removesuffix(UPDATES)
        if digits and not (NUMBER.fullmatch(name) and int(name) <= MOST):
            found[name] = f"A version's name is a number in [1, 2^63) without leading zeros; {place} is ignored: rename it."
        elif digits and not is_folder:
            found[name] = f"A version is a folder; {place} is a file, and is ignored."
        elif digits and not (place / MANIFEST).is_file():
            found[name] = f"A version has the file {MANIFEST}; {place} has none yet, and is ignored: write it by ctrlab export."
        elif is_folder and not digits and not (base != name and NUMBER.fullmatch(base)):
            found[name] = f"A version's name is its number, such as 1; {place} is ignored."
    return found


@contextlib.contextmanager
def new_version(folder: Path, number: int | None = None, *, above: int = 0) -> Iterator[tuple[int, Path]]:
    """The number of a new version, and a folder to write it into. When the block ends, the version appears complete.

    If the block raises, nothing has changed. Leftovers of killed exports and publishers are deleted first. Otherwise updates
    whose version never appeared could be taken for this version's.

    Args:
        number: in [1, 2^63), and higher than all that were given before; None: one more than these.
        above: a number that was given before, if the caller knows one.
    Raises:
        BadData: the file of the last number is damaged. CtrlabError: this version exists, or its number is used up; another
            export writes into the folder; the disk refuses. If it refuses the last sync, the version has appeared.
    """
    folder = Path(folder)
    if number is not None and (type(number) is not int or not 1 <= number <= MOST):
        raise CtrlabError(f"The version must be a whole number in [1, 2^63); received {number!r}.")
    try:
        make_folder(folder)
        with FolderLock(folder):
            sweep(folder)
            there = versions(folder)
            last = max(_last(folder), above, *_numbers(os.listdir(folder)), 0)  # a file or a broken link has a number, too
            number = number or last + 1
            if number > MOST:
                raise CtrlabError(f"Versions end below 2^63, and {folder} has had {MOST}: export to another folder.")
            if number in there:
                raise CtrlabError(f"A version is never overwritten; {folder / str(number)} exists: name another, or none.")
            if number <= last:
                said = f"A version's number is above all that were given; {folder} has had {last}, received {number}"
                raise CtrlabError(f"{said}: name a higher one, or none.")
            part = _hidden(folder)
            part.mkdir()
            try:
                yield number, part
                _sync(part)
                if os.path.lexists(folder / str(number)):  # an empty folder would be replaced
                    raise CtrlabError(f"A version is never overwritten; {folder / str(number)} has come meanwhile: export again.")
                _write_last(folder, number)
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
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink(missing_ok=True)


def _last(folder: Path) -> int:
    """The highest number that was given in a folder, as far as `LAST` knows; that of a label if there is no such file; or 0."""
    path = folder / LAST
    try:
        text = path.read_bytes()[:100].decode(errors="replace").strip()
    except FileNotFoundError:
        return max(read_labels(folder).values(), default=0)
    if not (NUMBER.fullmatch(text) and int(text) <= MOST):
        said = f"{path} holds the highest number that a version has had; it is {text[:40]!r}"
        raise BadData(f"{said}: write that number into it, or delete it if no version was deleted.")
    return int(text)


def _write_last(folder: Path, number: int) -> None:
    part = _hidden(folder)
    try:
        with part.open("w") as file:
            file.write(f"{number}\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, folder / LAST)  # `new_version` syncs the folder
    finally:
        part.unlink(missing_ok=True)


def _hidden(folder: Path) -> Path:
    return folder / f"{LEFTOVER}{secrets.token_hex(8)}"


def _sync(folder: Path) -> None:
    for place, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(place))

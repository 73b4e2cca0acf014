"""The folder of a published model, as used by the one training that publishes to it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from ctrlab.embedding.formats.folder_lock import FolderLock
from ctrlab.embedding.formats.tensor_file import make_folder
from ctrlab.errors import CtrlabError, cure_of
from ctrlab.serving.label_file import read_labels
from ctrlab.serving.manifest import NAME, File
from ctrlab.serving.version_labels import label_lock
from ctrlab.serving.versions import UPDATES, hide, sweep, versions

LOCKED = ".publisher.lock"
PARTS = ".parts-"
"""Prefix of the folder in which several workers write their parts of a publication."""


class PublisherLock:
    """Holds a folder for one training; the folder is made if missing. Two trainings must not share a folder: servers would switch
    back and forth between their models.

    Parts that killed workers left are deleted.

    Raises:
        CtrlabError: another training uses the folder, or the disk refuses.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._take()
        with explained(folder):
            for left in folder.glob(f"{PARTS}*"):
                shutil.rmtree(left, ignore_errors=True)

    def hold(self) -> None:
        """Takes the lock again if somebody deleted the folder. Raises like the constructor."""
        try:
            there = os.stat(self._folder / LOCKED)
        except FileNotFoundError:
            there = None
        if there is None or (there.st_dev, there.st_ino) != self._place:
            self.release()
            self._take()

    def release(self) -> None:
        self._held.release()

    def _take(self) -> None:
        place = self._folder / LOCKED
        with explained(self._folder):
            make_folder(place)
            try:
                self._held = FolderLock(place)
            except CtrlabError:
                said = f"One training at a time publishes to a folder; another publishes to {self._folder}"
                raise CtrlabError(f"{said}: wait until it has ended, or name another folder.") from None
            there = os.stat(place)
            self._place = (there.st_dev, there.st_ino)


def updates_of(folder: Path, number: int) -> Path:
    """The folder with the updates of a version."""
    return folder / f"{number}{UPDATES}"


@dataclass(frozen=True)
class FullVersion:
    """The full version that a publisher wrote last.

    Attributes:
        bundle: the name of its weights.
        manifest: its manifest, as it was written. Every export has another, because the files' checksums are in it.
    """

    number: int
    bundle: str
    manifest: File

    def lacks(self, folder: Path, updates: int) -> str:
        """Why no server could apply a further update, in a sentence; "" if the version and its updates are as they were written.

        Args:
            updates: the number of updates that were written.
        """
        try:
            whole = File.of(folder / str(self.number) / NAME) == self.manifest
            names = {entry.name for entry in os.scandir(updates_of(folder, self.number))}
        except (CtrlabError, OSError):
            whole = False
        if not whole:
            return f"Version {self.number} in {folder} was deleted or replaced since it was published."
        for update in range(1, updates + 1):
            if str(update) not in names:
                return f"Update {update} of version {self.number} in {folder} was deleted since it was published."
        return ""


def delete_old(folder: Path, keep: int) -> None:
    """Deletes old versions of publishers that have no label, except the last ones, and files that killed publishers left. Call it
    while nothing is published.

    Raises:
        CtrlabError: another process works in the folder, or its labels can't be read. OSError: the disk refuses.
    """
    for half in folder.glob(f"*{UPDATES}/.*-*"):
        half.unlink()
    made = [number for number in versions(folder) if updates_of(folder, number).is_dir()]
    whole = [number for number in made if (folder / str(number) / NAME).exists()]
    if len(whole) <= keep:
        return
    with FolderLock(folder):
        with label_lock(folder).acquire(timeout=0):
            labelled = read_labels(folder).values()
            for number in [number for number in made if number < whole[-keep] and number not in labelled]:
                hide(folder, number)
        sweep(folder)


@contextlib.contextmanager
def explained(folder: Path) -> Iterator[None]:
    """A context that turns errors of the disk or of memory into one sentence."""
    try:
        yield
    except (OSError, MemoryError, tf.errors.ResourceExhaustedError) as error:
        if isinstance(error, OSError):
            why, cure = error.strerror or error, cure_of(error, "free some space or name another folder")
        else:
            why, cure = "memory is full", "free some memory"
        raise CtrlabError(
            f"The model could not be published to {folder}: {why}; what was there before is as it was; {cure}."
        ) from None

"""The folder of a published model, as used by the one training that publishes to it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from ctrlab.embedding.formats.folder_lock import FolderLock
from ctrlab.embedding.formats.tensor_file import make_folder
from ctrlab.errors import CtrlabError, cure_of
from ctrlab.serving.version_labels import label_lock, read_labels
from ctrlab.serving.versions import UPDATES, hide, sweep, versions

LOCKED = ".publisher.lock"
PARTS = ".parts-"
"""Prefix of the folder in which several workers write their parts of a publication."""


def lock(folder: Path) -> FolderLock:
    """Makes the folder, locks it, and deletes the parts that killed workers left. Two trainings must not share a folder: servers
    would switch back and forth between their models.

    Raises:
        CtrlabError: another training uses the folder, or the disk refuses.
    """
    with explained(folder):
        make_folder(folder / LOCKED)
        try:
            held = FolderLock(folder / LOCKED)
        except CtrlabError:
            said = f"One training at a time publishes to a folder; another publishes to {folder}"
            raise CtrlabError(f"{said}: wait until it has ended, or name another folder.") from None
        for left in folder.glob(f"{PARTS}*"):
            shutil.rmtree(left, ignore_errors=True)
        return held


def updates_of(folder: Path, number: int) -> Path:
    """The folder with the updates of a version."""
    return folder / f"{number}{UPDATES}"


def delete_old(folder: Path, keep: int) -> None:
    """Deletes old versions of publishers that have no label, except the last ones, and files that killed publishers left. Call it
    while nothing is published.

    Raises:
        CtrlabError: another process works in the folder, or its labels can't be read. OSError: the disk refuses.
    """
    for half in folder.glob(f"*{UPDATES}/.*-*"):
        half.unlink()
    made = [number for number in versions(folder) if updates_of(folder, number).is_dir()]
    if len(made) <= keep:
        return
    with FolderLock(folder):
        with label_lock(folder).acquire(timeout=0):
            labelled = read_labels(folder).values()
            for number in [number for number in made[:-keep] if number not in labelled]:
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

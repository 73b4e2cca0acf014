"""Allows one run, merge, reshard or export at a time to write into a folder, within a process and between processes.

The lock is taken on the folder itself and adds no file. The system releases the lock of a killed process. The library
`filelock` instead locks a file of its own, which a killed process leaves in the folder, and it would not shorten this code.
"""

from __future__ import annotations

import errno
import fcntl
import os
import weakref
from pathlib import Path

from ctrlab.embedding.formats.tensor_file import make_folder
from ctrlab.errors import CtrlabError


class FolderLock:
    """Holds a folder until `release`, until the end of a `with` block, or until this object is deleted.

    Raises:
        CtrlabError: the folder is in use. OSError: there is no such folder.
    """

    def __init__(self, folder: Path):
        file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        self.release = weakref.finalize(self, os.close, file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            if problem.errno != errno.EWOULDBLOCK:
                return  # some network file systems have no locks
            self.release()
            raise CtrlabError(
                f"One run, merge or export at a time writes into a folder; {folder} is in use: close the "
                "other's Checkpoints, wait until its process has ended, or name another folder."
            ) from None

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_) -> None:
        self.release()


def take(folder: Path, name: str = "") -> FolderLock:
    """Makes and locks a folder for writing, and deletes what killed writers left in it.

    Args:
        name: leftovers are deleted only if their file name begins with it.
    Raises:
        CtrlabError: the folder is in use. OSError: the disk refuses.
    """
    make_folder(folder)
    lock = FolderLock(folder)  # locked first: otherwise a file that another process is writing would look like a leftover
    for left in folder.glob(f".{name}*.part"):
        left.unlink()
    return lock

"""One run, merge or cut into shards at a time writes into a folder of checkpoints: another, in this process or the next, is
refused as long as the first has it open.

The lock lies on the folder itself and adds no file to it. Of a process that is killed, the system lets it go. The library
`filelock` locks a file of its own instead, which a killed process leaves in the folder, and it would save no line here.
"""

from __future__ import annotations

import errno
import fcntl
import os
import weakref
from pathlib import Path

from ctrlab.errors import CtrlabError
from ctrlab.tensors import make_folder


class FolderLock:
    """Holds a folder until `release`, the end of a `with` block, or until nobody has this object any more.

    Raises:
        CtrlabError: it is held already. OSError: there is no such folder.
    """

    def __init__(self, folder: Path):
        file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        self.release = weakref.finalize(self, os.close, file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            if problem.errno != errno.EWOULDBLOCK:
                return  # some file systems of a network have no locks
            self.release()
            raise CtrlabError(
                f"One run or merge at a time writes into a folder; {folder} is in use: close the other's Checkpoints, wait until "
                "its process has ended, or name another folder."
            ) from None

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_) -> None:
        self.release()


def take(folder: Path, name: str = "") -> FolderLock:
    """Makes a folder that is to be written into, holds it, and deletes what writers that were killed have left in it.

    Args:
        name: of files whose names begin with it.
    Raises:
        CtrlabError: it is held already. OSError: the disk refuses.
    """
    make_folder(folder)
    lock = FolderLock(folder)  # before what another is just writing would be taken for a leftover
    for left in folder.glob(f".{name}*.part"):
        left.unlink()
    return lock

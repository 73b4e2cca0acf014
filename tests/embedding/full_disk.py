"""A disk that fills up and has room again, on purpose: what is written below a folder is refused meanwhile (full_disk.c).

    python full_disk.py PROGRAM SEED [COUNT]     e.g. filling_disk.py 17: what the tests do with that seed, by hand

A program says what one seed does, `run(folder, disk, seed)`, and ends with `main(run)`; what breaks a promise raises.
"""

import ctypes
import errno
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

NEVER = 1 << 62
ROOM, SYNC, NAMES = 1, 2, 4
"""Calls that take bytes or make a file; that sync; that rename or remove one."""
SOURCE = Path(__file__).with_name("full_disk.c")


class Disk:
    """The disk of this process, which full_disk.so was loaded into."""

    def __init__(self):
        self._c = ctypes.CDLL(os.environ["LD_PRELOAD"])
        self._c.full_disk_refused.restype = ctypes.c_longlong
        self.full = False

    def fill(
        self, below: Path, calls: int = NEVER, room: int = NEVER, says: int = errno.ENOSPC, kinds: int = ROOM | SYNC | NAMES
    ) -> None:
        """After so many calls or bytes from now on, calls of these kinds are refused below a folder, until `free`."""
        folder = os.fsencode(Path(below).resolve())
        self._c.full_disk_fill(folder, ctypes.c_longlong(calls), ctypes.c_longlong(room), says, kinds)
        self.full = True

    def fill_at_random(self, draw: random.Random, below: Path, calls: int, room: int) -> None:
        """A full disk, where nothing new fits and the rest works, or one that refuses whatever writes, or a broken one."""
        says, kinds = draw.choice([(errno.ENOSPC, ROOM), (errno.ENOSPC, ROOM | SYNC | NAMES), (errno.EIO, ROOM | SYNC | NAMES)])
        after = {"calls": draw.randrange(calls)} if draw.random() < 0.5 else {"room": draw.randrange(room)}
        self.fill(below, **after, says=says, kinds=kinds)

    def free(self) -> None:
        """There is room again."""
        self._c.full_disk_free()
        self.full = False

    @property
    def refused(self) -> int:
        """How many calls were refused so far."""
        return self._c.full_disk_refused()


def build(folder: Path) -> Path | None:
    """The compiled library, or None where there is no C compiler."""
    made = Path(folder) / "full_disk.so"
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-o", made, SOURCE, "-ldl"], check=True)
    except FileNotFoundError:
        return None
    return made


def start(library: Path, program: Path, folder: Path, *arguments) -> subprocess.CompletedProcess:
    """`program` on a disk that can fill up; what it says, and what is said for it, are in `stdout`."""
    command = [sys.executable, str(program), str(Path(folder).resolve()), *map(str, arguments)]
    preloaded = os.environ | {"LD_PRELOAD": str(library)}
    return subprocess.run(command, env=preloaded, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def main(run) -> None:
    """python PROGRAM FOLDER SEED COUNT: says how each seed went; exits with the number of those that failed.

    Each runs in a child of its own, since importing TensorFlow takes seconds and a fork of a process that has not used it none.
    """
    folder, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    failed = 0
    for seed in range(first, first + count):
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os._exit(_one(run, folder / str(seed), seed))
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            print(f"seed {seed}: signal {os.WTERMSIG(status)}")
        failed += status != 0
    sys.exit(min(failed, 100))


def _one(run, folder: Path, seed: int) -> int:
    disk = Disk()
    try:
        folder.mkdir()
        told = run(folder, disk, seed)
        print(f"seed {seed}: held, {disk.refused} calls refused{told}", flush=True)
        return 0
    except BaseException as broken:
        if os.environ.get("FULL_DISK_TRACE"):
            import traceback

            traceback.print_exc()
        words = " ".join(str(broken).split())
        print(f"seed {seed}: {type(broken).__name__}: {words[:700]}", flush=True)
        return 1
    finally:
        disk.free()


if __name__ == "__main__":
    program, seed, count = Path(sys.argv[1]), int(sys.argv[2]), int((sys.argv[3:] or [1])[0])
    with tempfile.TemporaryDirectory() as folder:
        ended = start(build(folder), program, folder, seed, count)
        print(ended.stdout)
    sys.exit(ended.returncode)

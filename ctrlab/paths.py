"""The folders that the package uses."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ctrlab.errors import CtrlabError


def checkout() -> Path | None:
    """The root of the source checkout that contains ctrlab, or None if it is installed as a plain package."""
    root = Path(__file__).resolve().parent.parent
    return root if (root / "pyproject.toml").is_file() and (root / "native").is_dir() else None


def native() -> Path:
    """The folder with kernels/ and check/harness.h: the checkout's, or the copy in the installed package."""
    return (checkout() or Path(__file__).parent) / "native"


def identity(file: os.stat_result) -> tuple[int, int, int, int]:
    """What changes when a file is written or replaced: its inode, its size in bytes, and its times in ns. A program can set the
    time of its content, but not that of the inode.
    """
    return file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns


def settled(file: os.stat_result) -> bool:
    """Whether another write would change the file's `identity`: it would not within one tick of the clock."""
    return time.time_ns() - file.st_ctime_ns > 10**9


def cache_folder() -> Path:
    """The folder for data and measured ceilings, which are kept between runs; made if missing.

    It is `CTRLAB_CACHE`, or `data/cache` in the checkout, or the user's cache folder on this platform.

    Raises:
        CtrlabError: the folder can't be made.
    """
    root = checkout()
    if override := os.environ.get("CTRLAB_CACHE"):
        folder = Path(override).expanduser()
    elif root:
        folder = root / "data" / "cache"
    else:
        folder = _user_cache() / "ctrlab"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CtrlabError(f"Cache folder {folder} can't be made ({error.strerror}); name another in CTRLAB_CACHE.") from None
    return folder


def compiled_folder() -> Path:
    """The folder for compiled files; made if missing. Checkouts share it, because its files are named by their contents.

    It is `compiled` in `CTRLAB_CACHE`, or in the user's cache folder, or in `cache_folder()` if the user's can't be written.

    Raises:
        CtrlabError: the folder can't be made.
    """
    if not os.environ.get("CTRLAB_CACHE"):
        with contextlib.suppress(OSError, RuntimeError):
            folder = _user_cache() / "ctrlab" / "compiled"
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder
    folder = cache_folder() / "compiled"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise CtrlabError(f"Folder {folder} can't be made ({error.strerror}); name another cache in CTRLAB_CACHE.") from None
    return folder


def require_place(path: Path) -> None:
    """Checks before a computation that its result can be written to the file `path`; makes no folder.

    Raises:
        CtrlabError: the path is a folder, or its folder is missing or not writable.
    """
    if path.is_dir():
        raise CtrlabError(f"{path} is a folder; give the path of a file to write.")
    if not path.parent.is_dir():
        raise CtrlabError(f"A file must be in an existing folder; {path.parent} is not one. Make it, or give another path.")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise CtrlabError(f"{path} can't be written: {error.strerror}; give another path.") from None


@contextlib.contextmanager
def replacing(path: Path, suffix: str = ".part") -> Iterator[Path]:
    """A path next to `path` to write a file to. When the block ends, the new file replaces `path` in one step.

    Readers see the old file or the complete new one. If the block raises, the new file is deleted.

    Args:
        suffix: suffix of the new file's name, for writers that depend on it.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}{suffix}")
    try:
        yield part
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, text: str) -> None:
    """Writes a complete text file; if that fails, an existing file stays unchanged."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def _user_cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")

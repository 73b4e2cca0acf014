"""The C++ compiler of this machine, and what it makes: each program, library or object once, kept in the cache folder.

Nothing heavy is imported: `ctrlab.cuda` compiles where there is no TensorFlow.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from ctrlab.errors import CtrlabError
from ctrlab.paths import cache_folder

KEPT = 8  # of a name: states of the sources, and one name's different flags
SECONDS = 900  # all kernels' checks under sanitizers take two minutes on a quiet core


class CompileError(CtrlabError):
    """A compiler refused; `output` is its own words."""

    def __init__(self, what: str, command: str, output: str):
        self.output = output
        super().__init__(f"{what} must compile; {command} says: {output}")


class NoSanitizer(CtrlabError):
    """The libraries that `-fsanitize` needs are not installed."""


def compiler() -> tuple[str, ...]:
    """The command that compiles C++, in words: $CXX, else g++, else clang++.

    Raises:
        CtrlabError: there is none.
    """
    for command in filter(None, (os.environ.get("CXX"), "g++", "clang++")):
        if shutil.which(shlex.split(command)[0]):
            return tuple(shlex.split(command))
    raise CtrlabError("Compiling a kernel needs a C++20 compiler and none was found; install g++ or name one in CXX.")


def compile(
    flags: Sequence,
    sources: Iterable[Path | str],
    target: Path,
    *,
    libraries: Sequence = (),
    by: Sequence[str] = (),
    folder: Path | None = None,
    seconds: float = SECONDS,
) -> Path:
    """Makes `target` of the sources.

    Args:
        sources: C++ or objects; their names are taken from `folder`, and the compiler's words have them as they are here.
        libraries: what a linker wants to see after the sources.
        by: the compiler's command, else `compiler()`.
    Raises:
        CompileError: the compiler refuses, or takes longer than `seconds`. NoSanitizer: it has no such libraries. CtrlabError:
            there is no compiler.
    """
    by = by or compiler()
    code, out, err = run([*by, *flags, *sources, *libraries, "-o", target], seconds, folder=folder)
    if re.search(r"cannot find .*(asan|ubsan|tsan)", err):
        raise NoSanitizer(
            f"Checking a kernel needs the sanitizer libraries of {by[0]}; install libasan and libubsan (gcc) or "
            "libclang-rt (clang)."
        )
    if code is None:
        raise CompileError(target.name, by[0], f"nothing, within {seconds:g} s.")
    if code != 0:
        raise CompileError(target.name, by[0], err.strip() or out.strip() or f"{by[0]} gave up without a word.")
    return target


def cached(
    name: str,
    flags: Sequence,
    sources: Iterable[Path],
    *,
    reads: Iterable[Path] = (),
    libraries: Sequence = (),
    by: Sequence[str] = (),
    make: Callable[[Path], object] | None = None,
) -> Path:
    """A file of the cache folder, made by `compile` once for each compiler, command and content of what is read.

    Two processes may make it at once; it appears whole, by a rename. Of each name the latest few are kept.

    Args:
        name: "check.o" is kept as check_<digest>.o.
        reads: files whose content the result depends on, beside the sources: headers, libraries of our own.
        make: writes the file it is given, where more than one call of the compiler does.
    Raises:
        as `compile` does.

    >>> cached("zero", ["-std=c++20"], [Path("zero.cc")])  # doctest: +SKIP
    PosixPath('.../zero_0123456789abcdef')
    """
    by, sources = tuple(by or compiler()), list(sources)
    digest = hashlib.sha256(repr((_version(by), by, [*map(str, flags)], [*map(str, libraries)])).encode())
    for path in (*sources, *sorted(set(reads))):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)} ".encode() + content)
    target = cache_folder() / f"{Path(name).stem}_{digest.hexdigest()[:16]}{Path(name).suffix}"
    try:
        os.utime(target)  # it is in use
    except FileNotFoundError:
        with tempfile.TemporaryDirectory(prefix=".compiling-", dir=target.parent) as folder:
            made = Path(folder) / name
            if make:
                make(made)
            else:
                compile(flags, sources, made, libraries=libraries, by=by)
            made.replace(target)
        _forget(target.parent.glob(f"{Path(name).stem}_{'?' * 16}{Path(name).suffix}"))
    except OSError:
        pass  # of another user, but it is there
    return target


def _forget(made: Iterable[Path]) -> None:
    """Deletes all but the latest."""
    with contextlib.suppress(OSError):  # another process does so, too
        for old in sorted(made, key=lambda path: path.stat().st_mtime_ns)[:-KEPT]:
            old.unlink()


@functools.cache
def _version(by: tuple[str, ...]) -> str:
    return run([*by, "--version"], SECONDS)[1]


def run(
    command: Sequence, seconds: float, *, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> tuple[int | None, str, str]:
    """Exit code, None where time ran out; stdout and stderr. Nothing of the process group is left behind.

    Args:
        folder: to run it in. environment: variables beside this process's.
    """
    # A preloaded allocator and AddressSanitizer do not go together.
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"} | dict(environment or {})
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    options = {"text": True, "errors": "replace", "env": environment, "cwd": folder, "start_new_session": True}
    with subprocess.Popen([*map(str, command)], **pipes, **options) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return None, "", ""
    return process.returncode, out, err

"""The C++ compiler of this machine, and a cache of its results: each program, library or object is made once, for all checkouts.

Nothing heavy is imported: `ctrlab.cuda` compiles where there is no TensorFlow.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import itertools
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ctrlab.errors import CtrlabError
from ctrlab.paths import compiled_folder, identity, settled

MOST_BYTES = 2 << 30
"""The most bytes of compiled files that are kept; those used longest ago are deleted first."""
YOUNG = 3600
"""A file that was used in the last `YOUNG` seconds is not deleted: a program is linked from its objects, and run, in less time.
"""
_contents: dict[tuple, str] = {}
SECONDS = 900  # all kernels' checks under sanitizers take two minutes on a quiet core


class CompileError(CtrlabError):
    """The compiler refused a source; `output` is the compiler's own message."""

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
    """Compiles `target` from the sources.

    Args:
        sources: C++ files or objects, relative to `folder`. The compiler's messages show the names as given here.
        libraries: the linker's arguments that must follow the sources.
        by: the compiler's command, else `compiler()`.
    Raises:
        CompileError: the compiler refuses, or takes longer than `seconds`. NoSanitizer: the sanitizer's libraries are missing.
            CtrlabError: there is no compiler.
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
    """A file of the folder of compiled files, made by `compile` once for each compiler, command and content of what is read.

    Two processes may make it at once: it appears complete, by a rename. Files that were unused for longest are deleted: see
    `MOST_BYTES`.

    Args:
        name: "check.so" is kept as check_<digest>.so.
        reads: further files on whose content the result depends: headers, libraries of our own.
        make: a function that writes the given file, if that takes more than one call of the compiler.
    Raises:
        as `compile` does.

    >>> cached("zero", ["-std=c++20"], [Path("zero.cc")])  # doctest: +SKIP
    PosixPath('.../zero_0123456789abcdef')
    """
    by, sources = tuple(by or compiler()), list(sources)
    words = [*_command(by, flags), *map(str, libraries)]
    words += [f"{path.name} {_content(path)}" for path in (*sources, *sorted(set(reads)))]
    target = compiled_folder() / f"{Path(name).stem}_{_digest(words)}{Path(name).suffix}"
    if not _in_use(target):
        with _whole(target, name) as made:
            if make:
                make(made)
            else:
                compile(flags, sources, made, libraries=libraries, by=by)
    return target


def cached_object(source: Path, flags: Sequence, *, by: Sequence[str] = ()) -> Path:
    """The object of one source, compiled once for each content of the source and of the headers that it really includes.

    The compiler lists these headers, those of the system too. So a change of any other header compiles nothing. A checkout finds
    the objects that another one compiled, because folders after `-I` and `-isystem` count by their contents. A new header that
    hides an included one is not noticed.

    Args:
        flags: flags of the compiler, without `-c` and `-o`.
    Raises:
        as `compile` does.

    >>> cached_object(Path("zero.cc"), ["-std=c++20"])  # doctest: +SKIP
    PosixPath('.../zero_0123456789abcdef_0123456789abcdef.o')
    """
    by, words = tuple(by or compiler()), [*map(str, flags)]
    roots = [Path(folder) for word, folder in itertools.pairwise(words) if word in ("-I", "-isystem")]
    kinds = [word for word in words if word not in set(map(str, roots))]
    begin = f"{source.stem}_{_digest([*_command(by, kinds), _named(source, source, roots), _content(source)])}"
    with _alone(source.stem):  # another process may be compiling the same source: one of the two does
        for known in sorted(compiled_folder().glob(f"{begin}_*.d")):
            target = known.with_suffix(".o")
            try:
                read = known.read_text().splitlines()
            except OSError:  # another process has just deleted it, to make room
                continue
            if target.stem == f"{begin}_{_state(read, source, roots)}" and _in_use(target):
                _in_use(known)
                return target
        with tempfile.TemporaryDirectory(prefix=".compiling-", dir=compiled_folder()) as folder:
            made, rule, begun = Path(folder, f"{source.stem}.o"), Path(folder, "rule.d"), time.time_ns()
            compile([*words, "-c", "-MD", "-MF", rule], [source], made, by=by)
            read = sorted({_named(path, source, roots) for path in _prerequisites(rule.read_text())})
            target = compiled_folder() / f"{begin}_{_state(read, source, roots)}.o"
            if whole := not any(begun <= _found(name, source, roots).stat().st_mtime_ns <= time.time_ns() for name in read):
                rule.write_text("\n".join(read))
                made.replace(target)
                rule.replace(target.with_suffix(".d"))  # last: a list of headers has its object
    _forget(target.parent)
    return target if whole else cached_object(source, flags, by=by)  # a header was written meanwhile


def _prerequisites(rule: str) -> list[Path]:
    """The files after the colon of a make rule, which has backslashes before line ends and before spaces in names."""
    files = re.split(r"(?<!\\)\s+", rule.partition(":")[2].replace("\\\n", " ").strip())
    return [Path(re.sub(r"\\([ #])", r"\1", file).replace("$$", "$")) for file in files]


def _named(path: Path, source: Path, roots: Sequence[Path]) -> str:
    """A file's name relative to the first folder of headers with it, or to the source's folder; `_found` is the inverse."""
    for number, root in enumerate((*roots, source.parent)):
        if path.is_relative_to(root):
            return f"{number} {path.relative_to(root)}"
    return f"- {path}"


def _found(name: str, source: Path, roots: Sequence[Path]) -> Path:
    number, _, path = name.partition(" ")
    return Path(path) if number == "-" else (*roots, source.parent)[int(number)] / path


def _state(read: Iterable[str], source: Path, roots: Sequence[Path]) -> str | None:
    """The digest of the files that were read, named as by `_named`; None if one of them no longer exists."""
    try:
        return _digest(f"{name} {_content(_found(name, source, roots))}" for name in read)
    except (OSError, IndexError):
        return None


def _command(by: tuple[str, ...], flags: Sequence) -> list[str]:
    """Everything on which a compiler's result depends, besides the files that it reads."""
    words = [_version(by), *by, *map(str, flags)]
    return [*words, _processor()] if "-march=native" in words else words


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256(repr([*words]).encode()).hexdigest()[:16]


def _content(path: Path) -> str:
    """The digest of a file's content, computed again only after the file was written."""
    found = path.stat()
    written = str(path), identity(found)
    if written not in _contents:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if not settled(found):
            return digest
        _contents[written] = digest
    return _contents[written]


def _in_use(target: Path) -> bool:
    """Whether the file exists. If so, it is marked as just used, so that it is deleted last."""
    try:
        os.utime(target)
    except FileNotFoundError:
        return False
    except OSError:
        pass  # of another user, but it is there
    return True


@contextlib.contextmanager
def _whole(target: Path, name: str) -> Iterator[Path]:
    """A context with a temporary path of that name to write to; at its end the file becomes `target` in one step."""
    with tempfile.TemporaryDirectory(prefix=".compiling-", dir=target.parent) as folder:
        yield (made := Path(folder) / name)
        made.replace(target)
    _forget(target.parent)


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """A context that one process and one thread at a time can enter, if the file system supports locks."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # no locks there, or the folder is another user's
            lock = held.enter_context((compiled_folder() / f".{name}.lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _forget(folder: Path) -> None:
    """Deletes the files that were used longest ago, until at most `MOST_BYTES` are left."""
    with contextlib.suppress(OSError):  # another process does so, too
        files = [(path.stat(), path) for path in folder.iterdir() if not path.name.startswith(".") and path.is_file()]
        left, now = sum(found.st_size for found, _ in files), time.time()
        for found, path in sorted(files, key=lambda each: each[0].st_mtime_ns):
            if left <= MOST_BYTES or now - found.st_mtime < YOUNG:
                break
            path.unlink()
            left -= found.st_size


@functools.cache
def _version(by: tuple[str, ...]) -> str:
    return run([*by, "--version"], SECONDS)[1]


@functools.cache
def _processor() -> str:
    """The meaning of `-march=native` here: the kind of this machine's processor, and its instruction sets."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return repr(sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))}))
    return f"{platform.machine()} {platform.processor()}"


def run(
    command: Sequence, seconds: float, *, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> tuple[int | None, str, str]:
    """Runs a command. Returns its exit code (None if the time ran out), stdout and stderr. No process of its group is left
    behind.

    Args:
        folder: the working folder. environment: environment variables, in addition to this process's.
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

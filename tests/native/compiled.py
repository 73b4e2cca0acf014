"""The checks of native code, compiled once for each state of the sources; skipped where a compiler lacks the sanitizers."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from ctrlab import compiling

NATIVE = Path(__file__).parents[2] / "native"


def sanitized(sanitizers: str) -> list[str]:
    """The flags of a check under `sanitizers`. Every undefined behaviour ends the program. Debuggers get line numbers only, which
    reports need. gcc's analysis of pointers is off: it takes most of the time where a function is full of checks."""
    quick = [] if "clang" in compiling.compiler()[0] else ["-fno-tree-pta"]
    return ["-O1", "-g1", *quick, f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]


@dataclass(frozen=True)
class Unit:
    """A source and how it is compiled; `by` is the compiler's command, that of C++ if none is given."""

    source: Path
    flags: tuple = ()
    by: tuple[str, ...] = ()


def units(sources: Iterable[Path], flags: Sequence = (), by: Sequence[str] = ()) -> list[Unit]:
    return [Unit(source, tuple(flags), tuple(by)) for source in sources]


def program(name: str, parts: Sequence[Unit], flags: Sequence, *, libraries: Sequence = (), native: Path = NATIVE) -> Path:
    """The program of some units, two compiled at a time; only the program is kept.

    Args:
        flags: of every call of the compiler. libraries: and other words for the linker.
        native: the folder of headers, all of which count as read.
    """
    include = ["-I", native]

    def make(target: Path) -> None:
        def compiled(numbered) -> Path:
            number, part = numbered
            made = target.with_name(f"{number}_{part.source.stem}.o")
            return compiling.compile([*include, *part.flags, *flags, "-c"], [part.source], made, by=part.by)

        with ThreadPoolExecutor(2) as pool:
            objects = list(pool.map(compiled, enumerate(parts)))
        compiling.compile(flags, objects, target, libraries=libraries)

    all_flags = [*include, *flags, *(part.flags + part.by for part in parts)]
    read = [*native.rglob("*.h"), *(library for library in libraries if isinstance(library, Path))]
    try:
        return compiling.cached(name, all_flags, [part.source for part in parts], reads=read, libraries=libraries, make=make)
    except compiling.NoSanitizer as missing:
        pytest.skip(str(missing))

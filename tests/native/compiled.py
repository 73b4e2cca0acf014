"""The checks of native code, compiled once for each state of what they include; skipped where a compiler lacks the sanitizers."""

import importlib.metadata
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from ctrlab import compiling

NATIVE = Path(__file__).parents[2] / "native"
CXX = ["-std=c++20", "-Wall", "-Wextra", "-Wno-psabi", "-Werror"]


def sanitized(sanitizers: str) -> list[str]:
    """The flags of a check under `sanitizers`. Every undefined behaviour ends the program. Debuggers get line numbers only, which
    reports need. gcc's analysis of pointers is off: it takes most of the time where a function is full of checks."""
    quick = [] if "clang" in compiling.compiler()[0] else ["-fno-tree-pta"]
    return ["-O1", "-g1", "-pthread", *quick, f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]


@dataclass(frozen=True)
class Unit:
    """A source and how it is compiled; `by` is the compiler's command, that of C++ if none is given."""

    source: Path
    flags: tuple = ()
    by: tuple[str, ...] = ()


def units(sources: Iterable[Path], flags: Sequence = (), by: Sequence[str] = ()) -> list[Unit]:
    return [Unit(source, tuple(flags), tuple(by)) for source in sources]


def program(name: str, parts: Sequence[Unit], flags: Sequence, *, libraries: Sequence = (), native: Path = NATIVE) -> Path:
    """The program of some units, two compiled at a time. Programs share the objects of the units that they have in common, and so
    do checkouts.

    Args:
        flags: of every call of the compiler. libraries: and other words for the linker.
        native: the folder of headers.
    """

    def compiled(part: Unit) -> Path:
        return compiling.cached_object(part.source, ["-I", native, *part.flags, *flags], by=part.by)

    try:
        with ThreadPoolExecutor(2) as pool:
            objects = list(pool.map(compiled, parts))
        return compiling.cached(
            name, flags, objects, reads=[library for library in libraries if isinstance(library, Path)], libraries=libraries
        )
    except compiling.NoSanitizer as missing:
        pytest.skip(str(missing))


SIMDJSON = next(file.locate().parent for file in importlib.metadata.files("pysimdjson") if file.name == "simdjson.h")


def simdjson(flags: Sequence) -> Path:
    """The object of the parser below the processor's; its header is in the folder `SIMDJSON`."""
    return compiling.cached_object(SIMDJSON / "simdjson.cpp", [*flags, "-isystem", SIMDJSON, "-w"])

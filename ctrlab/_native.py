"""Loads the compiled libraries. If one can't be loaded, one sentence says why and which command cures it."""

from __future__ import annotations

import ctypes
import functools
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from ctrlab.errors import NativeLibraryError

LIBRARY = Path(__file__).with_name("_ctrlab.so")
ENGINE = Path(__file__).with_name("libctrlab_engine.so")
"""The engine of embedding variables. It needs no TensorFlow; `LIBRARY` links to it."""
READER = Path(__file__).with_name("_ctrlab_arrow.so")
CURE = "run `pip install -e . --no-build-isolation` in the checkout (or `make lab`) to build it again"


class Ops:
    """The library's TensorFlow ops as functions, `ops.ctrlab_indicator`, each placed on the CPU, for which it is compiled."""

    def __init__(self, module: ModuleType):
        self._module = module

    def __getattr__(self, name: str) -> Callable:
        if name.startswith("_"):
            raise AttributeError(name)
        import tensorflow as tf

        from ctrlab import devices

        op = getattr(self._module, name)

        @tf.autograph.experimental.do_not_convert
        @functools.wraps(op)
        def placed(*arguments, **named):
            with devices.ours():
                return op(*arguments, **named)

        setattr(self, name, placed)
        return placed


@dataclass(frozen=True)
class Library:
    """The loaded library: its file, its TensorFlow ops, its C interface and the engine's."""

    path: Path
    ops: Ops
    c: ctypes.CDLL


@functools.cache
def library() -> Library:
    """Loads the compiled library, once.

    Raises:
        NativeLibraryError: it or the engine is missing, or it was built for another TensorFlow.
    """
    import tensorflow as tf

    check_whole(ENGINE)
    check(LIBRARY, tf.__version__)
    try:
        return Library(LIBRARY, Ops(tf.load_op_library(str(LIBRARY))), ctypes.CDLL(str(LIBRARY)))
    except (tf.errors.OpError, OSError) as error:
        raise NativeLibraryError(f"TensorFlow cannot load {LIBRARY}: {error}; {CURE}.") from None


@functools.cache
def reader_library() -> ModuleType:
    """The Parquet reader's TensorFlow ops (native/reader). They are in a separate library, because they need pyarrow's libraries.

    Raises:
        NativeLibraryError: it is missing, or was built for another TensorFlow or pyarrow.
    """
    import pyarrow.parquet  # loads its libraries into the process: they are not on any search path
    import tensorflow as tf

    check(READER, tf.__version__)
    try:
        return tf.load_op_library(str(READER))
    except tf.errors.OpError as error:
        raise NativeLibraryError(
            f"TensorFlow cannot load {READER} beside pyarrow {pyarrow.__version__}: {error}; {CURE}."
        ) from None


def check(library: Path, version: str) -> None:
    """Refuses a library that is missing or was built for another TensorFlow than `version`, before it is loaded.

    A library for another TensorFlow may fail with a list of symbols, or load and crash later.
    """
    mark = re.search(rb"ctrlab built for TensorFlow <([^>]+)>", check_whole(library))
    if mark is None:
        raise _no_library(library)
    built_for = mark[1].decode()
    if built_for != version:
        raise NativeLibraryError(
            f"The compiled library was built for TensorFlow {built_for}, and TensorFlow {version} is installed; {CURE}."
        )


def check_whole(library: Path) -> bytes:
    """The file's content; raises if the file is missing or truncated, before it is loaded."""
    if not library.exists():
        raise NativeLibraryError(f"The compiled library {library} is missing; {CURE}.")
    content = library.read_bytes()
    if not content or _cut_short(content):
        raise _no_library(library)
    return content


def _no_library(library: Path) -> NativeLibraryError:
    return NativeLibraryError(f"{library} is no compiled library of ctrlab, or only a piece of one; {CURE}.")


def _cut_short(content: bytes) -> bool:
    """Whether an ELF file is truncated. It must end with its section table; the loader would map a truncated one, and crash."""
    if not content.startswith(b"\x7fELF\x02\x01"):
        return False
    (table,) = struct.unpack_from("<Q", content, 0x28)
    size, count = struct.unpack_from("<HH", content, 0x3A)
    return table + size * count > len(content)

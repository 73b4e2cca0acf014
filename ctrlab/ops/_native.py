"""Loads the compiled library, or says in one sentence what is wrong with it and which command cures that."""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import re
from pathlib import Path
from types import ModuleType

from ctrlab.errors import NativeLibraryError

LIBRARY = Path(__file__).with_name("_ctrlab.so")
CURE = "run `pip install -e . --no-build-isolation` in the checkout (or `make lab`) to build it again"


@functools.cache
def ops() -> ModuleType:
    """The library's TensorFlow ops, e.g. `ops().ctrlab_indicator`.

    Raises:
        NativeLibraryError: the library is missing, or was built for another TensorFlow.
    """
    check(LIBRARY, importlib.metadata.version("tensorflow"))
    import tensorflow as tf

    try:
        return tf.load_op_library(str(LIBRARY))
    except (tf.errors.OpError, OSError) as error:
        raise NativeLibraryError(f"TensorFlow cannot load {LIBRARY}: {error}; {CURE}.") from None


@functools.cache
def c_interface() -> ctypes.CDLL:
    """The library's C interface: the table of kernels (native/kernels/registry.h)."""
    ops()
    return ctypes.CDLL(str(LIBRARY))


def check(library: Path, version: str) -> None:
    """Refuse a library that is missing or was not built for TensorFlow `version`, before anything loads it.

    A library of another TensorFlow may fail to load with a list of symbols, or load and crash later.
    """
    if not library.exists():
        raise NativeLibraryError(f"The compiled library {library} is missing; {CURE}.")
    built_for = re.search(rb"ctrlab built for TensorFlow <([^>]+)>", library.read_bytes())
    if built_for is None:
        raise NativeLibraryError(f"{library} does not say which TensorFlow it was built for; {CURE}.")
    if built_for[1].decode() != version:
        raise NativeLibraryError(
            f"The compiled library was built for TensorFlow {built_for[1].decode()}, and TensorFlow {version} is installed; {CURE}."
        )

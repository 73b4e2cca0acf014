"""The CUDA twins as one shared library: compiled once per state of the sources, by nvcc or, for the emulation, by a C++
compiler.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
from ctypes import POINTER, Structure, c_double, c_int64, c_void_p
from pathlib import Path

from ctrlab import compiling
from ctrlab.errors import CtrlabError
from ctrlab.paths import native

COMMON = ("-std=c++20", "-shared")
CUDA_FLAGS = ("-O3", "-arch=native", "-Xcompiler", "-fPIC")
EMULATED_FLAGS = ("-O1", "-g", "-fPIC", "-pthread", "-x", "c++")


class Library:
    """The functions of native/kernels/<op>/*.cu, by name. A call raises CtrlabError if the launch was refused.

    Args:
        emulated: compile for this machine's threads.
        sanitizer: sanitizers for the emulation, e.g. "address,undefined"; the process must then have been started with their
            library.
    Raises:
        CtrlabError: there is no compiler, or it refused the sources.
    """

    def __init__(self, *, emulated: bool, sanitizer: str = ""):
        self._c = ctypes.CDLL(str(build(emulated=emulated, sanitizer=sanitizer)))

    def __getattr__(self, name: str):
        function = getattr(self._c, f"ctrlab_cuda_{name}")

        def call(*arguments):
            # Addresses and sizes are 64 bits wide; ctypes would pass a plain int in 32.
            wide = (c_int64(a) if isinstance(a, int) else a for a in arguments)
            if code := function(*wide):
                raise CtrlabError(f"The GPU must take what is launched; {name} was refused with cudaError {code}.")

        return call


def build(*, emulated: bool, sanitizer: str = "", arch: str = "") -> Path:
    """The compiled library in the cache folder.

    Args:
        arch: nvcc's -arch, by default that of the GPU in this machine.
    """
    flags = EMULATED_FLAGS if emulated else tuple(f"-arch={arch}" if arch and f == "-arch=native" else f for f in CUDA_FLAGS)
    if sanitizer:
        flags = (*flags, f"-fsanitize={sanitizer}")
    flags, headers = (*COMMON, "-I", native(), *flags), (native() / "kernels").rglob("*.h")
    by = compiling.compiler() if emulated else nvcc()
    return compiling.cached("ctrlab_cuda.so", flags, sources(), reads=headers, by=by)


def sources() -> list[Path]:
    """The source files of all twins, from the folders of the ops."""
    return sorted((native() / "kernels").glob("*/*.cu"))


def nvcc() -> tuple[str, ...]:
    """The command of CUDA's compiler: $NVCC, else the one on the path, else the one in the usual folder.

    Raises:
        CtrlabError: there is none.
    """
    for command in filter(None, (os.environ.get("NVCC"), shutil.which("nvcc"), shutil.which("/usr/local/cuda/bin/nvcc"))):
        return tuple(shlex.split(command))
    raise CtrlabError("Compiling for a GPU needs nvcc and none was found; install the CUDA toolkit, or name its nvcc in NVCC.")


# The structs of native/kernels, as the C interface takes them.


class IdColumn(Structure):
    _fields_ = (("ids", c_void_p), ("splits", c_void_p), ("weights", c_void_p), ("offset", c_int64), ("size", c_int64))


class IndicatorInput(Structure):
    _fields_ = (("columns", c_void_p), ("column_count", c_int64), ("rows", c_int64), ("outputs", c_int64))


class LookupColumn(Structure):
    _fields_ = (
        ("ids", c_void_p),
        ("splits", c_void_p),
        ("table", c_int64),
        ("output", c_int64),
        ("offset", c_int64),
        ("combiner", c_int64),
    )


class LookupTable(Structure):
    _fields_ = (("rows", c_int64), ("dim", c_int64))


class LookupInput(Structure):
    _fields_ = (
        ("columns", c_void_p),
        ("column_count", c_int64),
        ("tables", c_void_p),
        ("table_count", c_int64),
        ("widths", c_void_p),
        ("rows", c_int64),
    )


class MergedRows(Structure):
    _fields_ = (("ids", c_void_p), ("rows", c_void_p), ("count", c_int64))


class MergeRoom(Structure):
    _fields_ = (("taken", c_void_p), ("before", c_void_p))


class StepRule(Structure):
    _fields_ = (("kind", c_int64), *((name, c_double) for name in
                ("beta1", "beta2", "epsilon", "l1", "l2", "clip_norm", "learning_rate", "step")))  # fmt: skip


class StepVariable(Structure):
    _fields_ = (
        ("weights", c_void_p),
        ("slots", c_void_p * 2),
        ("ids", c_void_p),
        ("gradient", c_void_p),
        ("rows", c_int64),
        ("dim", c_int64),
    )


class DenseLayer(Structure):
    _fields_ = (("kernel", c_void_p), ("bias", c_void_p), ("inputs", c_int64), ("outputs", c_int64))


class DenseGradient(Structure):
    _fields_ = (("kernel", c_void_p), ("bias", c_void_p))


class AttentionInput(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("query", "keys", "splits")),
        *((name, c_int64) for name in ("rows", "width")),
        ("layers", POINTER(DenseLayer)),
        ("layer_count", c_int64),
    )


class AttentionGradient(Structure):
    _fields_ = (("query", c_void_p), ("keys", c_void_p), ("layers", POINTER(DenseGradient)))


class GruInput(Structure):
    _fields_ = (
        *((name, c_void_p) for name in (
            "x", "splits", "gates_kernel", "gates_bias", "candidate_kernel", "candidate_bias", "attention")),
        *((name, c_int64) for name in ("rows", "inputs", "hidden")),
    )  # fmt: skip


class GruGradient(Structure):
    _fields_ = tuple(
        (name, c_void_p) for name in ("x", "gates_kernel", "gates_bias", "candidate_kernel", "candidate_bias", "attention")
    )

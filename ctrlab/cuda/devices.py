"""The memory of the twins: a GPU's through torch or CuPy, or NumPy's for the emulation."""

from __future__ import annotations

import numpy as np

from ctrlab.errors import CtrlabError


class Emulated:
    """Main memory, for the emulation."""

    name = "emulated"
    stream = None

    def put(self, array: np.ndarray) -> np.ndarray:
        return np.array(array, order="C")

    def get(self, array) -> np.ndarray:
        return array

    def pointer(self, array) -> int:
        return array.ctypes.data

    def synchronize(self) -> None:
        pass


class Torch:
    """A GPU's memory, as torch tensors."""

    stream = None  # the default stream, which torch also uses

    def __init__(self):
        import torch

        self.torch = torch
        self.name = torch.cuda.get_device_name()

    def put(self, array: np.ndarray):
        return self.torch.from_numpy(np.ascontiguousarray(array)).cuda()

    def get(self, array) -> np.ndarray:
        return array.cpu().numpy()

    def pointer(self, array) -> int:
        return array.data_ptr()

    def synchronize(self) -> None:
        self.torch.cuda.synchronize()


class Cupy:
    """A GPU's memory, as CuPy arrays."""

    stream = None

    def __init__(self):
        import cupy

        self.cupy = cupy
        self.name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()

    def put(self, array: np.ndarray):
        return self.cupy.asarray(np.ascontiguousarray(array))

    def get(self, array) -> np.ndarray:
        return self.cupy.asnumpy(array)

    def pointer(self, array) -> int:
        return array.data.ptr

    def synchronize(self) -> None:
        self.cupy.cuda.runtime.deviceSynchronize()


Device = Emulated | Torch | Cupy


def gpu() -> Torch | Cupy:
    """The GPU of this machine, through torch if it is installed (the rivals are torch's), otherwise through CuPy.

    Raises:
        CtrlabError: there is no GPU, or neither library.
    """
    problems = []
    for library in (Torch, Cupy):
        try:
            return library()
        except Exception as problem:  # each library raises its own errors for a missing driver
            problems.append(f"{library.__name__.lower()}: {problem}")
    raise CtrlabError(f"A GPU and torch or CuPy are needed ({'; '.join(problems)}). Without a GPU run it with --emulated.")

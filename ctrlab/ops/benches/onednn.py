"""Compares oneDNN's GRU and AUGRU with ours, if its library is installed (Debian: libdnnl-dev). TensorFlow carries another
oneDNN, so this one runs in a separate program. The same stopwatch times it; its inputs and reordered weights stay in its memory.
"""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from ctrlab import compiling
from ctrlab.errors import CtrlabError
from ctrlab.paths import checkout


@functools.cache
def program() -> Path | None:
    """The compiled peer program, built once per version of its source; None without source, compiler or oneDNN."""
    root = checkout()
    if root is None:
        return None
    source = root / "native" / "bench" / "onednn_gru.cc"
    try:
        return compiling.cached("onednn_gru", ["-std=c++17", "-O2"], [source], libraries=["-ldnnl"])
    except CtrlabError:
        return None


class Gru:
    """One batch of full-length histories in a running peer program. Each call is one pass, forward and backward.

    Args:
        x [B, T, C], the four weights as `ctrlab.ops.gru` takes them, attention [B, T] or None, d_outputs [B, T, H]: NumPy.
    """

    def __init__(self, x, gates_kernel, gates_bias, candidate_kernel, candidate_bias, attention, d_outputs):
        (rows, length, width), hidden = x.shape, len(candidate_bias)
        self._shapes = rows, length, width, hidden
        # oneDNN orders the gates update, reset, candidate; we order them reset, update, candidate.
        reset, update = np.split(gates_kernel, 2, axis=1)
        kernel = np.stack([update, reset, candidate_kernel], axis=1)  # [C + H, 3, H]
        bias = np.concatenate([gates_bias[hidden:], gates_bias[:hidden], candidate_bias])
        arrays = [np.swapaxes(x, 0, 1), kernel[:width], kernel[width:], bias, np.swapaxes(d_outputs, 0, 1)]
        arrays += [] if attention is None else [attention.T]
        self._folder = tempfile.TemporaryDirectory(prefix="ctrlab-onednn-")
        self._file = Path(self._folder.name) / "batch"
        sizes = np.array([length, rows, width, hidden, attention is not None], np.int64)
        self._file.write_bytes(sizes.tobytes() + b"".join(np.ascontiguousarray(a, np.float32).tobytes() for a in arrays))
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen([str(program()), str(self._file)], **pipes)
        self._process.stdout.readline()

    def __call__(self, *_) -> None:
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        if self._process.stdout.readline() != b"done\n":
            raise CtrlabError("oneDNN's GRU ended before its time; run it alone to see why.")

    def close(self) -> list[np.ndarray]:
        """Ends the program: outputs [B, T, H], and the gradients of x, the four weights and the attention, if any."""
        rows, length, width, hidden = self._shapes
        self._process.communicate(timeout=60)
        flat = np.fromfile(f"{self._file}.out", np.float32)
        shapes = [(length, rows, hidden), (length, rows, width), (width, 3, hidden), (hidden, 3, hidden), (3, hidden)]
        ends = np.cumsum([np.prod(shape) for shape in shapes])
        outputs, d_x, of_x, of_h, bias, *rest = [
            part.reshape(shape) for part, shape in zip(np.split(flat, ends), [*shapes, (length, rows)]) if part.size
        ]
        kernel = np.concatenate([of_x, of_h])  # [C + H, 3, H]
        gates = np.concatenate([kernel[:, 1], kernel[:, 0]], axis=1)
        found = [
            np.swapaxes(outputs, 0, 1),
            np.swapaxes(d_x, 0, 1),
            gates,
            np.concatenate([bias[1], bias[0]]),
            kernel[:, 2],
            bias[2],
        ]
        return found + [part.T for part in rest]

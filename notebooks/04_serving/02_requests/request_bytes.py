"""Measures the cost of a request's bytes: stages by format, and parsers of texts side by side. For lessons."""

from __future__ import annotations

import ctypes
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import tensorflow as tf

from ctrlab.errors import CtrlabError
from ctrlab.lessons.cpp_cell import FAST, Source
from ctrlab.paths import native
from ctrlab.profiling import colours
from ctrlab.profiling.charts.style import figure
from ctrlab.serving.processor import STAGES, Processor

Columns = dict[str, "np.ndarray | list[bytes]"]


def columns_of(tensors: Mapping[str, tf.Tensor]) -> Columns:
    """{input: its numbers, or its texts}, as a client has them."""
    return {name: tensor.numpy().tolist() if tensor.dtype == tf.string else tensor.numpy() for name, tensor in tensors.items()}


def stages(processor: Processor, requests: Mapping[str, tuple], repetitions: int) -> dict[str, dict[str, float]]:
    """{request: {stage: median seconds}}; requests take turns.

    Args:
        requests: {name: arguments of `processor.process`}.
    """
    seen: dict[str, list[tuple[float, ...]]] = {name: [] for name in requests}
    for _ in range(repetitions):
        for name, request in requests.items():
            seen[name].append(processor.process(*request).seconds)
    return {name: dict(zip(STAGES, map(statistics.median, zip(*seconds)))) for name, seconds in seen.items()}


def stage_chart(found: Mapping[str, Mapping[str, float]]) -> go.Figure:
    """A chart with one bar per request, made of its stages, with their sum."""
    names = [f"{name}<br>{1e6 * sum(seconds.values()):,.0f} µs" for name, seconds in found.items()]
    bars = [
        go.Bar(
            name=stage,
            x=names,
            y=[1e6 * seconds[stage] for seconds in found.values()],
            text=[f"{1e6 * seconds[stage]:,.0f}" for seconds in found.values()],
            marker_color=colour,
            hovertemplate=f"{stage}: %{{y:.0f}} µs<extra></extra>",
        )
        for stage, colour in zip(STAGES, colours.PALETTE)
    ]
    return figure(
        bars, "Where a request's time goes", x="format, and the whole time", y="microseconds", barmode="stack", height=380
    )


def python_texts(data: bytes) -> list[bytes]:
    """The texts of a text tensor, in which each text follows its length."""
    at, found = 0, []
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "little")
        found.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return found


def copying(most: int) -> Texts:
    """A parser in C++ that makes a string of each text."""
    return Texts(Source("copying_texts", (native() / "lessons/copying_texts.cc").read_text(encoding="utf-8")), most)


class _Text(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


class Texts:
    """The function of a cell, as native/lessons/texts.h describes it, inside this process.

    Raises:
        CellError: it does not compile.
    """

    def __init__(self, source: Source, most: int):
        with tempfile.TemporaryDirectory(prefix="ctrlab-cell-") as folder:
            library = ctypes.CDLL(str(source.compiled(Path(folder, "texts.so"), *FAST, "-shared", "-fPIC")))
        self._function = library.texts
        self._function.restype = ctypes.c_int64
        self._function.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(_Text), ctypes.c_size_t)
        self._most, self._found = most, (_Text * most)()

    def __call__(self, data: bytes) -> int:
        """The number of texts in the bytes, or -1."""
        return self._function(data, len(data), self._found, self._most)

    def texts(self, data: bytes) -> list[bytes]:
        """Copies of the found texts.

        Raises:
            CtrlabError: the bytes are not valid texts, or there are too many.
        """
        count = self(data)
        if not 0 <= count <= self._most:
            raise CtrlabError(f"These bytes are at most {self._most:,} texts, each behind its length; the parser says {count}.")
        return [ctypes.string_at(text.data, text.size) for text in self._found[:count]]

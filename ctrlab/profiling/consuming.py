"""Waits for the results of timed calls: what is lazy or still runs elsewhere is not free, only late."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import numpy as np


def consume(result: Any) -> None:
    """Waits until `result` has been computed: exhausts iterators and datasets, waits for futures and devices, and materialises
    what NumPy can read. On the CPU TensorFlow's results are complete when a call returns, so nothing is copied."""
    if _touch(result) and _runs_ahead():
        sys.modules["tensorflow"].test.experimental.sync_devices()


def _touch(result: Any) -> bool:
    """Consumes `result`; returns True if it contains a TensorFlow value."""
    if result is None or isinstance(result, (bool, int, float, complex, str, bytes, np.ndarray, np.generic)):
        return False
    if isinstance(result, Mapping):
        return any([_touch(value) for value in result.values()])
    if isinstance(result, (list, tuple, set, Iterator)) or hasattr(result, "as_numpy_iterator"):
        return any([_touch(value) for value in result])
    if isinstance(result, Future):
        return _touch(result.result())
    if type(result).__module__.partition(".")[0] in ("tensorflow", "keras"):
        return True
    if hasattr(result, "__array__"):
        np.asarray(result)
    return False


@functools.cache
def _runs_ahead() -> bool:
    """Whether calls may return before their results are computed: with a GPU, or with asynchronous execution."""
    tf = sys.modules["tensorflow"]
    return bool(tf.config.get_visible_devices("GPU")) or not tf.config.experimental.get_synchronous_execution()

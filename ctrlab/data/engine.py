"""Engines for work on blocks of rows: this process, with Python's `map`, or many processes, with `ctrlab.data.ray_engine`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Engine = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""(function, items) -> the function's results, in the order of the items. It takes only a few items ahead of the results that
were read.
"""

"""Who does the work that goes block by block: this process, by Python's `map`, or many, by `ctrlab.data.ray_engine`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Engine = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""(function, items) -> the function's results, in the order of the items. It takes few items before their results are wanted."""

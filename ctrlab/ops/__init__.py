"""The lab's ops, one module each: an `Op` with its `reference`, `baseline` and `fused` ways, under one signature."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlab.ops.op import Op

__all__ = ["ops", *(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)]


@functools.cache
def ops() -> dict[str, Op]:
    """{name: Op} of every op, collected from the modules of this package, so that no list has to be kept.

    >>> "lookup" in ops()
    True
    """
    from ctrlab.ops.op import Op

    found: dict[str, Op] = {}
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        if not module.name.startswith((f"{__name__}.benches", f"{__name__}.references")):
            values = vars(importlib.import_module(module.name)).values()
            for op in (value for value in values if isinstance(value, Op)):
                if found.setdefault(op.name, op) is not op:
                    raise ValueError(f"Ops must have names of their own; two are called {op.name!r}.")
    return found

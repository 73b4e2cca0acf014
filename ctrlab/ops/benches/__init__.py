"""Benches of the ops: each one's ways in one paired run, forward and backward, against the machine's ceilings.

A module of this package may have BENCHES, {name: a function that makes a `Bench`}: each is in `ctrlab bench ops`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable

from ctrlab import profiles
from ctrlab.errors import choose
from ctrlab.ops.benches.bench import Bench, Row, run
from ctrlab.profiling.roofline import ceilings

BENCHES: dict[str, Callable[..., Bench]] = {}
for _module in pkgutil.iter_modules(__path__):
    BENCHES |= getattr(importlib.import_module(f"{__name__}.{_module.name}"), "BENCHES", {})


def bench_ops(names: Iterable[str] | None = None, profile: str | None = None) -> list[Row]:
    """Runs benches by name, or all.

    Args:
        names: keys of BENCHES.
        profile: its repetitions are used; "tiny" also shrinks the batches, to look at the machinery only.
    Raises:
        UnknownName: there is no such bench or profile. NativeLibraryError: the compiled library is missing.
    """
    size = profiles.current(profile)
    names = [choose("bench", name, BENCHES) for name in names or BENCHES]
    limits = ceilings()
    return [row for name in names for row in run(name, BENCHES[name](small=size.name == "tiny"), size.repetitions, limits)]

"""Benches of the ops: one paired run compares all ways of an op, forward and backward, with the machine's ceilings.

A module is named after its op's module and has BENCHES, {name: a function that makes a `Bench`}. `ctrlab bench ops` runs them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from ctrlab import profiles
from ctrlab.errors import choose
from ctrlab.ops import ops
from ctrlab.ops.benches.bench import Bench, Row, run
from ctrlab.profiling.roofline import ceilings


@functools.cache
def benches() -> dict[str, Callable[..., Bench]]:
    """{name: maker} of every op."""
    return {name: maker for op in ops().values() for name, maker in op.benches.items()}


def bench_ops(names: Iterable[str] | None = None, profile: str | None = None) -> list[Row]:
    """Runs the named benches, or all.

    Args:
        names: keys of `benches()`.
        profile: sets the number of repetitions; "tiny" also shrinks the batches, to test the machinery only.
    Raises:
        UnknownName: there is no such bench or profile. NativeLibraryError: the compiled library is missing.
    """
    size, known = profiles.current(profile), benches()
    names = [choose("bench", name, known) for name in names or known]
    limits = ceilings()
    return [row for name in names for row in run(name, known[name](small=size.name == "tiny"), size.repetitions, limits)]

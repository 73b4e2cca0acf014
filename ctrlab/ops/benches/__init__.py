"""Benches of the ops: each one's ways in one paired run, forward and backward, against the machine's ceilings.

A module is named after its op's and has BENCHES, {name: a function that makes a `Bench`}: each is in `ctrlab bench ops`.
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
    """Runs benches by name, or all.

    Args:
        names: keys of `benches()`.
        profile: its repetitions are used; "tiny" also shrinks the batches, to look at the machinery only.
    Raises:
        UnknownName: there is no such bench or profile. NativeLibraryError: the compiled library is missing.
    """
    size, known = profiles.current(profile), benches()
    names = [choose("bench", name, known) for name in names or known]
    limits = ceilings()
    return [row for name in names for row in run(name, known[name](small=size.name == "tiny"), size.repetitions, limits)]

"""Benches of MMoE's experts at DeepRec's sizes: 272 inputs, four experts."""

from __future__ import annotations

import functools
import itertools

from ctrlab.ops.benches.bench import Bench, random, variants
from ctrlab.ops.experts import OP

SIZES, EXPERTS = (272, 256, 192, 128, 64), 4


def experts(small: bool = False, rows: int = 512) -> Bench:
    """The experts without gates and mixture, from x to [E, B, H], with every gradient."""
    rows, layers = 64 if small else rows, list(itertools.pairwise(SIZES))
    kernels = random(0, *[(EXPERTS, i, o) for i, o in layers], scale=0.1)
    biases = random(1, *[(EXPERTS, 1, o) for _, o in layers], scale=0.1)

    def batch(call: int) -> tuple:
        x, d_out = random(call, (rows, SIZES[0]), (EXPERTS, rows, SIZES[-1]), scale=0.1)
        return [x], d_out

    return Bench(
        shape=f"B={rows}, E={EXPERTS}, {'-'.join(map(str, SIZES))}",
        variants=variants(OP, weights=[kernels, biases], xla=True),
        make_inputs=batch,
        work=OP.work(rows, EXPERTS, SIZES),
    )


BENCHES = {"experts": experts, "experts_128": functools.partial(experts, rows=128)}

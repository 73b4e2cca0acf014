"""Benches of the hidden layers of one of MMoE's towers, at DeepRec's sizes."""

from __future__ import annotations

import functools
import itertools

from ctrlab.ops.benches.bench import Bench, random, variants
from ctrlab.ops.tower import OP

SIZES = (64, 256, 192, 128, 64)


def tower(small: bool = False, rows: int = 512) -> Bench:
    rows, layers = 64 if small else rows, list(itertools.pairwise(SIZES))
    kernels, biases = random(0, *layers, scale=0.1), random(1, *[(o,) for _, o in layers], scale=0.1)

    def batch(call: int) -> tuple:
        x, d_out = random(call, (rows, SIZES[0]), (rows, SIZES[-1]), scale=0.1)
        return [x], d_out

    return Bench(
        shape=f"B={rows}, {'-'.join(map(str, SIZES))}",
        variants=variants(OP, weights=[kernels, biases], xla=True),
        make_inputs=batch,
        work=OP.work(rows, SIZES),
    )


BENCHES = {"tower": tower, "tower_128": functools.partial(tower, rows=128)}

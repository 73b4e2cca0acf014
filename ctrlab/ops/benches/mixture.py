"""Benches of MMoE's gates and mixture at DeepRec's sizes: 272 inputs, four experts of 64, two tasks."""

from __future__ import annotations

import functools

from ctrlab.ops.benches.bench import Bench, random, variants
from ctrlab.ops.mixture import OP

INPUTS, WIDTH, EXPERTS, TASKS = 272, 64, 4, 2


def gates(small: bool = False, rows: int = 512) -> Bench:
    """Gates and mixture: from x and the experts' outputs to the input of each task's tower."""
    rows = 64 if small else rows
    kernels, biases = random(0, *[(INPUTS, EXPERTS)] * TASKS, scale=0.1), random(1, *[(EXPERTS,)] * TASKS, scale=0.1)

    def batch(call: int) -> tuple:
        x, said, *d_out = random(call, (rows, INPUTS), (EXPERTS, rows, WIDTH), *[(rows, WIDTH)] * TASKS, scale=0.1)
        return [x, said], d_out

    return Bench(
        shape=f"B={rows}, E={EXPERTS}, K={TASKS}, H={WIDTH}",
        variants=variants(OP, weights=[kernels, biases], xla=True),
        make_inputs=batch,
        work=OP.work(rows, INPUTS, EXPERTS, TASKS, WIDTH),
    )


BENCHES = {"mixture": gates, "mixture_128": functools.partial(gates, rows=128)}

"""Benches of DLRM's dot interaction, with a bottom vector, at the contest's 26 fields of 16."""

from __future__ import annotations

import functools

from ctrlab.ops.benches.bench import Bench, random, variants
from ctrlab.ops.dot_interaction import OP

FIELDS, DIM = 26, 16


def dots(small: bool = False, rows: int = 2048) -> Bench:
    rows, vectors = 64 if small else rows, FIELDS + 1

    def batch(call: int) -> tuple:
        pairs = vectors * (vectors - 1) // 2
        *inputs, d_out = random(call, (rows, DIM), (rows, FIELDS * DIM), (rows, DIM + pairs))
        return inputs, d_out

    return Bench(
        shape=f"B={rows}, F={FIELDS}, D={DIM}",
        variants=variants(OP, last=(DIM,), xla=True),
        make_inputs=batch,
        work=OP.work(rows, vectors, DIM),
    )


BENCHES = {"dot_interaction": dots, "dot_interaction_128": functools.partial(dots, rows=128)}

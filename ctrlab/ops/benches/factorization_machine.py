"""Benches of DeepFM's second order, at the contest's 26 fields of 16."""

from __future__ import annotations

import functools

from ctrlab.ops.benches.bench import Bench, random, variants
from ctrlab.ops.factorization_machine import OP

FIELDS, DIM = 26, 16


def machine(small: bool = False, rows: int = 2048) -> Bench:
    rows = 64 if small else rows

    def batch(call: int) -> tuple:
        fields, d_out = random(call, (rows, FIELDS * DIM), (rows, DIM))
        return [fields], d_out

    return Bench(
        shape=f"B={rows}, F={FIELDS}, D={DIM}",
        variants=variants(OP, last=(DIM,), xla=True),
        make_inputs=batch,
        work=OP.work(rows, FIELDS, DIM),
    )


BENCHES = {"factorization_machine": machine, "factorization_machine_128": functools.partial(machine, rows=128)}

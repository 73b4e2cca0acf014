"""Benches of parsing numbers in text."""

from __future__ import annotations

import functools

import numpy as np
import tensorflow as tf

from ctrlab.ops.benches.bench import Bench
from ctrlab.ops.benches.texts import BATCHES, bytes_of, step
from ctrlab.ops.parsing.numbers import OP
from ctrlab.schema import NumericList

NUMBERS = 25


def of_numbers(small: bool = False, rows: int = 2048) -> Bench:
    """The mean of 25 numbers joined by "|" in a text."""
    rows = 64 if small else rows
    column = NumericList("price_list", separator="|")
    rng = np.random.default_rng(0)
    batches = [
        tf.constant([column.separator.join(map("{:.2f}".format, row)) for row in rng.uniform(0, 100, (rows, NUMBERS))])
        for _ in range(BATCHES)
    ]
    return Bench(
        shape=f"B={rows}, {NUMBERS} numbers a row",
        variants={name: step(way, [column]) for name, way in OP.ways.items()},
        make_inputs=lambda call: (tf.roll(batches[call % BATCHES], call, 0),),
        work=OP.work(bytes_of(batches[0]), rows),
    )


BENCHES = {"parse_numbers": of_numbers, "parse_numbers_128": functools.partial(of_numbers, rows=128)}

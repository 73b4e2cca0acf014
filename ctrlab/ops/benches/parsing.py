"""Benches of the parsing ops: one column of numbers, and all id columns of food delivery."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from ctrlab.data.sets.food_delivery import SCHEMA
from ctrlab.features import Categorical, NumericList
from ctrlab.ops.benches.bench import Bench
from ctrlab.ops.parsing import ids, numbers
from ctrlab.profiling.roofline import Work

NUMBERS, EVENTS = 25, 20
BATCHES = 8  # made once; each call has one of them, its rows turned by a few


def of_numbers(small: bool = False, rows: int = 2048) -> Bench:
    """The mean of 25 numbers joined by "|" in a text."""
    rows = 64 if small else rows
    column = NumericList("price_list", separator="|")
    rng = np.random.default_rng(0)
    batches = [
        tf.constant([column.separator.join(map("{:.2f}".format, row)) for row in rng.uniform(0, 100, (rows, NUMBERS))])
        for _ in range(BATCHES)
    ]
    implementations = numbers.OP.ways
    return Bench(
        shape=f"B={rows}, {NUMBERS} numbers a row",
        variants={name: _step(op, [column]) for name, op in implementations.items()},
        make_inputs=lambda call: (tf.roll(batches[call % BATCHES], call, 0),),
        work=Work(bytes=_bytes(batches[0]) + 4.0 * rows),
    )


def of_ids(small: bool = False, rows: int = 512) -> Bench:
    """Text to ids, all columns: words of eight letters, 20 events a history."""
    rows = 64 if small else rows
    rng = np.random.default_rng(0)
    columns = SCHEMA.id_columns
    batches = [[_words(rng, column, rows) for column in columns] for _ in range(BATCHES)]
    lists = sum(not isinstance(column, Categorical) for column in columns)
    made = rows * (len(columns) - lists + lists * EVENTS)
    implementations = ids.OP.ways
    return Bench(
        shape=f"B={rows}, {len(columns)} columns, {lists} of them lists of {EVENTS}",
        variants={name: _step(op, columns) for name, op in implementations.items()},
        make_inputs=lambda call: tuple(tf.roll(text, call, 0) for text in batches[call % BATCHES]),
        work=Work(bytes=sum(map(_bytes, batches[0])) + 8.0 * made),
    )


def _words(rng: np.random.Generator, column, rows: int) -> tf.Tensor:
    known = column.vocabulary or [f"{word:08x}" for word in rng.integers(0, 2**32, 1_000)]
    if isinstance(column, Categorical):
        return tf.constant(rng.choice(known, rows).astype(bytes))
    return tf.constant([column.separator.join(row) for row in rng.choice(known, (rows, EVENTS))])


def _bytes(text: tf.Tensor) -> float:
    return float(tf.reduce_sum(tf.strings.length(text)))


def _step(op: Callable, columns) -> Callable:
    @tf.function(autograph=False)
    def step(*values):
        return tf.nest.flatten(op(columns, values), expand_composites=True)

    return step


BENCHES = {
    "parse_numbers": of_numbers,
    "parse_numbers_128": functools.partial(of_numbers, rows=128),
    "parse_ids": of_ids,
    "parse_ids_128": functools.partial(of_ids, rows=128),
}

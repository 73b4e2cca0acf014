"""Benches of text to ids: id columns like those of food delivery."""

from __future__ import annotations

import functools

import numpy as np
import tensorflow as tf

from ctrlab.ops.benches.bench import Bench
from ctrlab.ops.benches.texts import BATCHES, bytes_of, step
from ctrlab.ops.parsing.ids import OP
from ctrlab.schema import Categorical, MultiHot, Sequence

EVENTS = 20
TIMES, DAYS = ("lunch", "night", "dinner", "tea", "breakfast"), tuple("0123456")
KNOWN = [{"encoding": "vocabulary", "vocabulary": words} for words in (TIMES, DAYS)]
COLUMNS = (
    *(Categorical(f"id_{c}") for c in range(14)),
    *(Categorical(f"known_{c}", **known) for c, known in enumerate(KNOWN)),
    *(Sequence(f"list_{c}") for c in range(7)),
    *(Sequence(f"known_list_{c}", **known) for c, known in enumerate(KNOWN)),
    MultiHot("bag"),
)


def of_ids(small: bool = False, rows: int = 512) -> Bench:
    """All columns: words of eight letters, 20 events per history."""
    rows = 64 if small else rows
    rng = np.random.default_rng(0)
    batches = [[_words(rng, column, rows) for column in COLUMNS] for _ in range(BATCHES)]
    lists = sum(not isinstance(column, Categorical) for column in COLUMNS)
    return Bench(
        shape=f"B={rows}, {len(COLUMNS)} columns, {lists} of them lists of {EVENTS}",
        variants={name: step(way, COLUMNS) for name, way in OP.ways.items()},
        make_inputs=lambda call: tuple(tf.roll(text, call, 0) for text in batches[call % BATCHES]),
        work=OP.work(bytes_of(*batches[0]), rows * (len(COLUMNS) - lists + lists * EVENTS)),
    )


def _words(rng: np.random.Generator, column, rows: int) -> tf.Tensor:
    known = column.vocabulary or [f"{word:08x}" for word in rng.integers(0, 2**32, 1_000)]
    if isinstance(column, Categorical):
        return tf.constant(rng.choice(known, rows).astype(bytes))
    return tf.constant([column.separator.join(row) for row in rng.choice(known, (rows, EVENTS))])


BENCHES = {"parse_ids": of_ids, "parse_ids_128": functools.partial(of_ids, rows=128)}

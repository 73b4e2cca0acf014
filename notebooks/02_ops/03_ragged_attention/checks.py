"""Checks of 02_ops/03_ragged_attention: (1) the scores of the existing events, (2) the learner's own kernel."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from ctrlab.lessons.exercise import Close, Exercise, tensors
from ctrlab.lessons.limits import NoAllocation, Traced
from ctrlab.ops import attention
from ctrlab.ops.events import Events

WIDTH, UNITS, LENGTHS = 12, (24, 8, 1), 4 * (1, 0, 30, 3, 2, 1, 5, 2, 4, 1, 0, 3)


def batch(rng: np.random.Generator, lengths, width: int, units) -> tuple:
    """query [B, C], keys [N, C], splits [B + 1], layers; NumPy, float32 numbers."""
    sizes = (4 * width, *units)
    layers = [(rng.normal(size=(i, o)) / np.sqrt(i), rng.normal(size=o)) for i, o in zip(sizes, units)]
    numbers = rng.normal(size=(len(lengths), width)), rng.normal(size=(sum(lengths), width)), layers
    query, keys, layers = tf.nest.map_structure(lambda x: x.astype(np.float32), numbers)
    return query, keys, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), layers


def batches(rng: np.random.Generator) -> Iterator[tuple]:
    """The cases: (description, query, keys, splits, layers): random ones, then those that break a careless answer."""
    width, units = int(rng.integers(2, 9)), (int(rng.integers(2, 20)), int(rng.integers(2, 9)), 1)
    for _ in range(3):
        yield "random histories", *batch(rng, rng.integers(0, 7, int(rng.integers(2, 9))).tolist(), width, units)
    yield "rows without any event", *batch(rng, [0, 2, 0, 0, 3, 0], width, units)
    yield "no event in the whole batch", *batch(rng, [0, 0], width, units)
    yield "a batch of one row", *batch(rng, [5], width, units)
    yield "one event a row", *batch(rng, [1, 1, 1], width, units)
    yield "a batch of no rows", *batch(rng, [], width, units)
    yield "a history far longer than the others", *batch(rng, [1, 40, 2], width, units)
    yield "one sigmoid layer", *batch(rng, [3, 1], width, (5, 1))
    query, keys, splits, ((kernel, bias),) = batch(rng, [4, 17, 0], width, (1,))
    yield "large scores", query, keys, splits, [(kernel, bias + np.float32(100))]  # exp(89) is no float32


def scores(query, keys, splits, layers) -> np.ndarray:
    """The definition, float32 [N]."""
    q = np.repeat(query, np.diff(splits), axis=0).astype(np.float64)  # [N, C]
    x = np.concatenate([q, keys, q - keys, q * keys], axis=1)  # [N, 4C]
    for kernel, bias in layers[:-1]:
        x = 1 / (1 + np.exp(-(x @ kernel + bias)))
    return (x @ layers[-1][0] + layers[-1][1])[:, 0].astype(np.float32)


def events(query, keys, splits, layers) -> tuple:
    """The arguments of the op."""
    return tf.constant(query), Events(tf.constant(splits), flat=tf.constant(keys)), layers


def pooled(query, keys, splits, layers) -> tuple[np.ndarray, np.ndarray]:
    """weights [N], attended [B, C]."""
    weights, attended = attention.OP.reference(query.astype(np.float64), Events(splits, flat=keys), layers)
    return weights.flat, attended


def narrow_and_wide(rng: np.random.Generator) -> list[tuple]:
    return [events(*batch(rng, [longest, 0, 2], width, (5, 1))) for width, longest in ((4, 3), (300, 600))]


ROW = "a row's weights sum to 1; a row without events has the zero vector"
BUDGET = Traced(
    rule="the widest thing is the first layer's [N, units]; no [N, 4C], and nothing of [B, T]",
    largest_elements=sum(LENGTHS) * UNITS[0],
    on=lambda rng: tensors(*batch(rng, LENGTHS, WIDTH, UNITS)),
    of=f"N = {sum(LENGTHS)} events in B = {len(LENGTHS)} rows, C = {WIDTH} and layers of {', '.join(map(str, UNITS))} units",
    next_step="split the first weight matrix into its four parts instead of joining four inputs",
)
CHECKS = {
    1: Exercise(
        asks="scores(query, keys, splits, layers): float32 [B, C], [N, C], int64 [B + 1], [(kernel, bias)] -> float32 [N]",
        cases=batches,
        reference=scores,
        given=tensors,
        compare=Close("q goes with Wq + Wd, k with Wk - Wd, q * k with Wp"),
        limits=[BUDGET],
        run_it="how many events has each row? splits[1:] - splits[:-1]",
    ),
    2: Exercise(
        asks="the op `answer(query, events, layers)` with the learner's kernel inside: weights, attended float32 [B, C]",
        kernel="attention_pool",
        cases=batches,
        reference=pooled,
        given=events,
        compare={"weights": Close(ROW, read=lambda weights: weights.flat), "attended": Close(ROW)},
        limits=[
            NoAllocation(
                "attention_pool",
                sizes="3 rows of C = 4 and 3 of C = 300",
                on=narrow_and_wide,
                next_step="`weights` and `attended` have room for all you compute",
            )
        ],
    ),
}

"""Checks of 02_ops/03_ragged_attention: (1) the scores of the events that are there, (2) the learner's own kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from ctrlab.lessons.budget import Budget
from ctrlab.lessons.check import call, parts, require_close
from ctrlab.lessons.own_kernel import on_own, require_no_allocation
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


def batches(rng: np.random.Generator) -> Iterator[tuple[str, tuple]]:
    """(what it is, a batch): random ones, then those that break a careless answer."""
    width, units = int(rng.integers(2, 9)), (int(rng.integers(2, 20)), int(rng.integers(2, 9)), 1)
    for _ in range(3):
        yield "random histories", batch(rng, rng.integers(0, 7, int(rng.integers(2, 9))).tolist(), width, units)
    yield "rows without any event", batch(rng, [0, 2, 0, 0, 3, 0], width, units)
    yield "no event in the whole batch", batch(rng, [0, 0], width, units)
    yield "a batch of one row", batch(rng, [5], width, units)
    yield "one event a row", batch(rng, [1, 1, 1], width, units)
    yield "a batch of no rows", batch(rng, [], width, units)
    yield "a history far longer than the others", batch(rng, [1, 40, 2], width, units)
    yield "one sigmoid layer", batch(rng, [3, 1], width, (5, 1))


def scores(query, keys, splits, layers) -> np.ndarray:
    """The definition, float32 [N]."""
    q = np.repeat(query, np.diff(splits), axis=0).astype(np.float64)  # [N, C]
    x = np.concatenate([q, keys, q - keys, q * keys], axis=1)  # [N, 4C]
    for kernel, bias in layers[:-1]:
        x = 1 / (1 + np.exp(-(x @ kernel + bias)))
    return (x @ layers[-1][0] + layers[-1][1])[:, 0].astype(np.float32)


BUDGET = Budget(
    rule="the widest thing is the first layer's [N, units]; no [N, 4C], and nothing of [B, T]",
    largest_elements=sum(LENGTHS) * UNITS[0],
)


def check_scores(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `scores(query, keys, splits, layers)` -> float32 [N]."""
    for case, (query, keys, splits, layers) in batches(rng):
        inputs = tf.nest.map_structure(tf.constant, (query, keys, splits, layers))
        received = call(answer, *inputs, case=case, next_step="how many events has each row? splits[1:] - splits[:-1]")
        step = "q goes with Wq + Wd, k with Wk - Wd, q * k with Wp"
        require_close(received, scores(query, keys, splits, layers), case=case, next_step=step)
    inputs = tf.nest.map_structure(tf.constant, batch(rng, LENGTHS, WIDTH, UNITS))
    BUDGET.enforce(answer, *inputs, next_step="split the first kernel into its four parts instead of joining four inputs")


def check_kernel(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 2: the op `answer(query, events, layers)` -> weights, attended [B, C], on the learner's kernel."""
    answer = on_own("attention_pool", answer)
    for case, (query, keys, splits, layers) in batches(rng):
        given = tf.constant(query), Events(tf.constant(splits), flat=tf.constant(keys)), layers
        answered = call(answer, *given, case=case, next_step="does it crash with our kernel too?")
        weighed, summed = parts(answered, "weights, attended", case=case)
        weights, attended = attention.OP.reference(query.astype(np.float64), Events(splits, flat=keys), layers)
        step = "a row's weights sum to 1; a row without events has the zero vector"
        for part, expected in zip((weighed.flat, summed), (weights.flat, attended)):
            require_close(part, expected.astype(np.float32), case=case, next_step=step)
    questions = []
    for width, longest in ((4, 3), (300, 600)):
        query, keys, splits, layers = batch(rng, [longest, 0, 2], width, (5, 1))
        questions.append((tf.constant(query), Events(tf.constant(splits), flat=tf.constant(keys)), layers))
    step = "`weights` and `attended` have room for all you compute"
    require_no_allocation("attention_pool", answer, questions, sizes="3 rows of C = 4 and 3 of C = 300", next_step=step)


CHECKS = {1: check_scores, 2: check_kernel}

"""Checks of 02_ops/04_fused_gru: (1) rows of similar length in blocks, (2) the learner's own kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from ctrlab.lessons.budget import Budget
from ctrlab.lessons.check import CheckFailed, call, parts, require_close
from ctrlab.lessons.own_kernel import on_own, require_no_allocation
from ctrlab.ops import gru
from ctrlab.ops.events import Events

ROWS, BLOCK = 2_000, 8
BUDGET = Budget(rule="one sort, no loop, nothing larger than the batch", largest_elements=ROWS, ops={"TopK": 1, "Unique": 0})


def batches_of_lengths(rng: np.random.Generator) -> Iterator[tuple[str, list[int], int]]:
    """(what it is, lengths, rows a block): random ones, then those that break a careless answer."""
    for _ in range(3):
        yield "random lengths", rng.integers(0, 50, int(rng.integers(5, 40))).tolist(), int(rng.integers(2, 9))
    yield "all of one length", [int(rng.integers(1, 9))] * 7, 3
    yield "rows of length 0", [0, 4, 0, int(rng.integers(1, 9)), 0], 2
    yield "nothing but empty rows", [0, 0, 0], 2
    yield "a batch of one row", [int(rng.integers(1, 9))], 4
    yield "one long row", [1, int(rng.integers(40, 60)), 1, 1, 1], 2
    yield "longest first already", [9, 7, 5, 3, 1], 2
    yield "shortest first", [1, 3, 5, 7, 9], 2


def carried_by(lengths: list[int], size: int) -> int:
    """The definition: every row of a block, empty places too, is carried to the block's longest end."""
    longest_first = sorted(lengths, reverse=True)
    return sum(size * longest_first[i] for i in range(0, len(lengths), size))


def check_blocks(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `blocks(lengths, size)`, int64 [B] -> (order int64 [B], carried int64 scalar)."""
    for case, lengths, size in batches_of_lengths(rng):
        given = tf.constant(lengths, tf.int64)
        order, carried = parts(call(answer, given, size, case=case), "order, carried", case=case)
        order = np.asarray(order)
        if order.shape != (len(lengths),) or not np.array_equal(np.sort(order), np.arange(len(lengths))):
            raise CheckFailed(
                "`order` names each row once.",
                expected=f"a permutation of 0 to {len(lengths) - 1}",
                received=order.tolist(),
                next_step="tf.argsort gives the numbers of the rows, not their lengths",
            )
        longest_first = np.sort(lengths)[::-1]
        hint = "direction='DESCENDING': a block then has its longest row first"
        require_close(tf.gather(given, order), longest_first.astype(np.int64), case=f"{case}, lengths in order", next_step=hint)
        expected = np.int64(carried_by(lengths, size))
        require_close(carried, expected, case=f"{case}, carried", next_step="size times the sum of each block's longest length")
    lengths = tf.constant(rng.integers(0, 50, ROWS), tf.int64)
    BUDGET.enforce(answer, lengths, BLOCK, next_step="sort once; sorted[::size] has the longest row of each block")


def histories(rng: np.random.Generator) -> Iterator[tuple[str, list[int], int, int, bool]]:
    """(what it is, lengths, C, H, with attention)."""
    for attended in (False, True):
        yield "random histories", rng.integers(0, 7, 9).tolist(), int(rng.integers(2, 20)), int(rng.integers(2, 20)), attended
    yield "rows of length 0", [0, 3, 0, 1], 3, 4, False
    yield "nothing but empty rows", [0, 0], 3, 4, True
    yield "a batch of one row", [5], 3, 4, False
    yield "one input, one hidden", [2, 3], 1, 1, True
    yield "the model's width", [4, 2, 6], 36, 36, False


def batch(rng: np.random.Generator, lengths: list[int], width: int, hidden: int, attended: bool) -> tuple:
    """x [N, C], splits, the four weights, attention [N] or None: tensors."""
    splits = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    joined, count = width + hidden, int(splits[-1])
    shapes = [(count, width), (joined, 2 * hidden), (2 * hidden,), (joined, hidden), (hidden,)]
    x, *weights = [tf.constant(rng.standard_normal(shape), tf.float32) for shape in shapes]
    return x, tf.constant(splits), *weights, tf.constant(rng.random(count), tf.float32) if attended else None


def expected_of(x, splits, *rest) -> tuple[np.ndarray, np.ndarray]:
    """outputs [N, H] and last [B, H] by the reference."""
    *weights, attention = [None if a is None else np.asarray(a, np.float64) for a in rest]
    attention = None if attention is None else Events(splits, flat=attention)
    outputs, last = gru.OP.reference(Events(splits, flat=x), *weights, attention)
    return outputs.flat.astype(np.float32), last.astype(np.float32)


def check_kernel(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 2: the op `answer(events, *weights, attention)` with the learner's kernel inside, against the reference."""
    answer = on_own("gru", answer)
    for case, *sizes in histories(rng):
        inputs = batch(rng, *sizes)
        x, splits, *weights, attention = inputs
        attention = None if attention is None else Events(splits, flat=attention)
        given = Events(splits, flat=x), *weights, attention
        answered = call(answer, *given, case=case, next_step="does it crash with our kernel too?")
        outputs, last = parts(answered, "outputs, last", case=case)
        for name, part, expected in zip(("outputs", "last"), (outputs.flat, last), expected_of(*inputs)):
            hint = "the reset comes before the product: c sees r * h"
            require_close(part, expected, rtol=1e-4, case=f"{case}, {name}", next_step=hint)
    questions = []
    for hidden in (4, 300):
        x, splits, *weights, _ = batch(rng, [7, 0, 9], 5, hidden, False)
        questions.append((Events(splits, flat=x), *weights, None))
    step = "`gates`, `outputs` and `last` have room for all you compute"
    require_no_allocation("gru", answer, questions, sizes="16 positions with H = 4 and 16 with H = 300", next_step=step)


CHECKS = {1: check_blocks, 2: check_kernel}

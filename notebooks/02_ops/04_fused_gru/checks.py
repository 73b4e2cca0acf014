"""Checks of 02_ops/04_fused_gru: (1) rows of similar length in blocks, (2) the learner's own kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from ctrlab.lessons.check import CheckFailed, require_close
from ctrlab.lessons.exercise import Close, Exercise
from ctrlab.lessons.limits import NoAllocation, Traced
from ctrlab.ops import gru
from ctrlab.ops.events import Events

ROWS, BLOCK = 2_000, 8


def batches_of_lengths(rng: np.random.Generator) -> Iterator[tuple[str, list[int], int]]:
    """The cases: (description, lengths, rows a block): random ones, then those that break a careless answer."""
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


def in_order(received: object, longest_first: np.ndarray, case: str, question: Sequence) -> None:
    """Accepts any order in which the longest rows come first; rows of equal length may come in any order."""
    lengths, order = question[0], np.asarray(received)
    if order.dtype.kind != "i" or order.shape != (len(lengths),) or not np.array_equal(np.sort(order), np.arange(len(lengths))):
        raise CheckFailed(
            "`order` names each row once.",
            wrong=f"`order` is no permutation of the rows; here {case}.",
            expected=f"a permutation of 0 to {len(lengths) - 1}",
            received=order.tolist(),
            next_step="tf.argsort gives the numbers of the rows, not their lengths",
        )
    hint = "direction='DESCENDING': a block then has its longest row first"
    require_close(np.asarray(lengths)[order], longest_first, case=f"{case}, lengths in order", next_step=hint)


def histories(rng: np.random.Generator) -> Iterator[tuple[str, list[int], int, int, bool]]:
    """The cases: (description, lengths, C, H, with attention)."""
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


def events(x, splits, *rest) -> tuple:
    """The arguments of the op."""
    *weights, attention = rest
    return Events(splits, flat=x), *weights, None if attention is None else Events(splits, flat=attention)


def narrow_and_wide(rng: np.random.Generator) -> list[tuple]:
    return [events(*batch(rng, [7, 0, 9], 5, hidden, False)) for hidden in (4, 300)]


RESET = "the reset comes before the product: c sees r * h"
BUDGET = Traced(
    rule="one sort, no loop, nothing larger than the batch",
    largest_elements=ROWS,
    ops={"TopK": 1, "Unique": 0},
    on=lambda rng: (tf.constant(rng.integers(0, 50, ROWS), tf.int64), BLOCK),
    of=f"{ROWS:,} rows in blocks of {BLOCK}",
    next_step="sort once; where in the sorted order is the longest row of each block?",
)
CHECKS = {
    1: Exercise(
        asks="blocks(lengths, size): int64 [B], rows a block -> order int64 [B], carried int64 scalar",
        cases=batches_of_lengths,
        reference=lambda lengths, size: (np.sort(lengths)[::-1], carried_by(lengths, size)),
        given=lambda lengths, size: (tf.constant(lengths, tf.int64), size),
        compare={"order": in_order, "carried": Close("size times the sum of each block's longest length", dtype=np.int64)},
        limits=[BUDGET],
    ),
    2: Exercise(
        asks="the op `answer(events, *weights, attention)` with the learner's kernel inside: outputs, last float32 [B, H]",
        kernel="gru",
        cases=lambda rng: ((case, *batch(rng, *sizes)) for case, *sizes in histories(rng)),
        reference=expected_of,
        given=events,
        compare={"outputs": Close(RESET, rtol=1e-4, read=lambda outputs: outputs.flat), "last": Close(RESET, rtol=1e-4)},
        limits=[
            NoAllocation(
                "gru",
                sizes="16 positions with H = 4 and 16 with H = 300",
                on=narrow_and_wide,
                next_step="`gates`, `outputs` and `last` have room for all you compute",
            )
        ],
    ),
}

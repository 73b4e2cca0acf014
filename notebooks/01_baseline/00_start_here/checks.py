"""Checks of 01_baseline/00_start_here: (1) the ratio of paired times, (2) the learner's own pointwise kernel."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ctrlab.lessons.exercise import Close, Exercise, tensors
from ctrlab.ops import pointwise
from ctrlab.ops.references.pointwise import KINDS, SLOPED


def pairs(
    rng: np.random.Generator, count: int, ratio: float, noise: float = 0.3, own: float = 0.05
) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of `count` pairs of blocks, float64 [count] each: the blocks of a pair share `noise`, and each has its `own`."""
    state = 1e-3 * np.exp(noise * rng.standard_normal(count))
    own = np.exp(own * rng.standard_normal((2, count)))
    return ratio * state * own[0], state * own[1]


def measurements(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """The cases: (description, seconds of the baseline, of the variant)."""
    for count in (9, 15):
        yield f"{count} pairs", *pairs(rng, count, rng.uniform(1.5, 6))
    yield "an even number of pairs", *pairs(rng, 8, rng.uniform(1.5, 6))
    yield "a variant that is slower", *pairs(rng, 5, rng.uniform(0.2, 0.6))
    yield "a single pair", *pairs(rng, 1, rng.uniform(1.5, 6))
    baseline, variant = pairs(rng, 7, rng.uniform(1.5, 6))
    baseline[rng.integers(7)] *= 50
    yield "another program that disturbed one block", baseline, variant
    baseline, variant = pairs(rng, 99, rng.uniform(1.5, 6), own=0.5)
    order = np.argsort(baseline / variant)  # so that no part of the pairs has the median of all
    yield "99 pairs, the variant becoming faster", baseline[order], variant[order]
    baseline, variant = pairs(rng, 11, rng.uniform(1.5, 6), noise=0)
    slower = np.linspace(1, 5, 11)
    yield "a machine that becomes slower and slower", baseline * slower, variant * slower


def batches(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    """The cases: (description, x [B, n])."""
    for _ in range(2):
        yield "random numbers", rng.standard_normal((int(rng.integers(2, 9)), int(rng.integers(2, 20))))
    yield "many rows", rng.standard_normal((700, 33))
    yield "one column", rng.standard_normal((6, 1))
    yield "a batch of one row", rng.standard_normal((1, 7))
    yield "a batch of no rows", np.zeros((0, 7))
    yield "negative numbers only", -5 - rng.random((4, 7))
    yield "zeros", np.zeros((3, 7))


def calls(rng: np.random.Generator) -> Iterator[tuple]:
    """The cases: (description, kind, x, shift, and the slope if the kind has one): each batch with each kind."""
    for case, x in batches(rng):
        for kind in KINDS:
            vectors = [rng.standard_normal(x.shape[1]).astype(np.float32) for _ in range(1 + (kind in SLOPED))]
            yield f"{kind}, {case}", kind, x.astype(np.float32), *vectors


CHECKS = {
    1: Exercise(
        asks="times_as_fast(baseline, variant): float64 [pairs] of seconds each -> the median of the pairs' ratios",
        cases=measurements,
        reference=lambda baseline, variant: np.median(baseline / variant),
        compare=Close(
            "divide first, pair by pair (which by which?); then the median: one disturbed pair hardly moves it",
            rtol=1e-9,
            dtype=np.float64,
        ),
    ),
    2: Exercise(
        asks="the op `answer(kind, x, shift, slope)` with the learner's kernel inside: float32 [B, n]",
        kernel="pointwise",
        cases=calls,
        reference=pointwise.OP.reference,
        given=tensors,
        compare=Close("with p = x + shift[c], PReLU is p where p > 0, else slope[c] * p; the result is stored at out[b * n + c]"),
    ),
}

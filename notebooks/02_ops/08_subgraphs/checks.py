"""Checks of 02_ops/08_subgraphs: (1) batch norm's gradient by hand, (2) the learner's own kernel."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ctrlab.lessons.exercise import Close, Exercise, tensors
from ctrlab.lessons.limits import Traced
from ctrlab.ops import batch_norm

ROWS, COLUMNS = 128, 64
NAMES = "product", "bias", "scale", "shift", "moving_mean", "moving_variance"


def batches(rng: np.random.Generator) -> Iterator[tuple[str, dict[str, np.ndarray], np.ndarray]]:
    """The cases: (description, the op's inputs, d_out): random ones, then those that break a careless answer."""

    def batch(rows: int, columns: int, offset: float = 0.0):
        values = {name: rng.standard_normal(columns).astype(np.float32) for name in NAMES}
        values["product"] = (rng.standard_normal((rows, columns)) + offset).astype(np.float32)
        values["moving_variance"] **= 2
        return values, rng.standard_normal((rows, columns)).astype(np.float32)

    for _ in range(3):
        yield "a random batch", *batch(int(rng.integers(3, 40)), int(rng.integers(2, 30)))
    yield "a batch of one row", *batch(1, 5)
    yield "one column", *batch(9, 1)
    yield "a width that no vector divides", *batch(20, 67)
    yield "columns where the ReLU lets nothing through", *batch(12, 5, -50.0)
    yield "columns where the ReLU lets everything through", *batch(12, 5, 6.0)


def float32(*arrays) -> list[np.ndarray]:
    return [np.asarray(a, np.float32) for a in arrays]


def gradient_of(a, scale, d_out) -> list[np.ndarray]:
    """d_a, d_scale, d_shift of scale * (a - mean) / deviation + shift, by float64."""
    a, d_out = a.astype(np.float64), d_out.astype(np.float64)
    deviation = np.sqrt(a.var(0) + batch_norm.EPSILON)
    normal = (a - a.mean(0)) / deviation
    d_shift, d_scale = d_out.sum(0), (d_out * normal).sum(0)
    return float32(scale / deviation * (d_out - d_shift / len(a) - normal * d_scale / len(a)), d_scale, d_shift)


def inputs_of(values, d_out) -> list[np.ndarray]:
    """a, mean, inverse, scale, d_out."""
    a = np.maximum(values["product"] + values["bias"], 0)
    wide = a.astype(np.float64)
    inverse = 1 / np.sqrt(wide.var(0) + batch_norm.EPSILON)
    return float32(a, wide.mean(0), inverse, values["scale"], d_out)


def large(rng: np.random.Generator) -> tuple:
    shapes = (ROWS, COLUMNS), COLUMNS, COLUMNS, COLUMNS, (ROWS, COLUMNS)
    return tensors(*float32(*(rng.standard_normal(shape) for shape in shapes)))


MOVED = Close("is each sum divided by B once?", rtol=1e-4)
BUDGET = Traced(
    rule="at most seven tensors of [B, n]; sums over the rows and products of vectors are free",
    largest_elements=ROWS * COLUMNS,
    # The vectors, sums and constants of a careful answer take less than one tensor of [B, n] more.
    bytes=8 * 4 * ROWS * COLUMNS - 1,
    on=large,
    of=f"B = {ROWS} rows of n = {COLUMNS}",
    next_step="keep a - mean, and put inverse into the small vectors",
)
CHECKS = {
    1: Exercise(
        asks="norm_gradient(a, mean, inverse, scale, d_out): float32 [B, n], three [n], [B, n] -> d_a, d_scale, d_shift",
        cases=lambda rng: ((case, *inputs_of(values, d_out)) for case, values, d_out in batches(rng)),
        reference=lambda a, mean, inverse, scale, d_out: gradient_of(a, scale, d_out),
        given=tensors,
        compare={  # what is left of d_a after the means are taken out may be small beside them
            "d_a": Close("both means move with every row: two terms to subtract", rtol=1e-4),
            "d_scale": Close("d_out times (a - mean) * inverse, summed over rows", rtol=1e-4),
            "d_shift": Close("d_out summed over rows", rtol=1e-4),
        },
        limits=[BUDGET],
    ),
    2: Exercise(
        asks="the op `answer(product, ...)` with the learner's kernel inside: out, the moved mean, the moved variance",
        kernel="batch_norm",
        cases=lambda rng: ((case, *values.values()) for case, values, _ in batches(rng)),
        reference=batch_norm.OP.reference,
        given=tensors,
        compare={"out": MOVED, "the moved mean": MOVED, "the moved variance": MOVED},
    ),
}

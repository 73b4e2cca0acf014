"""Checks of 02_ops/05_fused_augru: (1) the AUGRU's cell, (2) the gradient of its attention."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from ctrlab.lessons.exercise import Close, Exercise, tensors
from ctrlab.lessons.limits import Traced

POSITIONS, HIDDEN = 300, 16


def cell(x, h, a, W, b, V, d) -> np.ndarray:
    """The definition in NumPy: x [B, C], h [B, H], a [B] -> the next state [B, H], float64."""
    x, h, a, W, b, V, d = (array.astype(np.float64) for array in (x, h, a, W, b, V, d))
    hidden = h.shape[1]
    gates = 1 / (1 + np.exp(-(np.concatenate([x, h], 1) @ W + b)))
    reset, update = gates[:, :hidden], (1 - a[:, None]) * gates[:, hidden:]
    candidate = np.tanh(np.concatenate([x, reset * h], 1) @ V + d)
    return update * h + (1 - update) * candidate


def cells(rng: np.random.Generator) -> Iterator[tuple]:
    """The cases: (description, x, h, a, W, b, V, d): random ones, then those that break a careless answer."""

    def arrays(rows, width, hidden):
        joined = width + hidden
        shapes = [(rows, width), (rows, hidden), (joined, 2 * hidden), (2 * hidden,), (joined, hidden), (hidden,)]
        x, h, *weights = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        return [x, h, rng.random(rows, np.float32), *weights]

    for _ in range(3):
        yield "random numbers", *arrays(*rng.integers(2, 9, 3))
    yield "a batch of one row", *arrays(1, 3, 4)
    yield "as many rows as hidden", *arrays(5, 3, 5)
    yield "a batch of no rows", *arrays(0, 3, 4)
    for value, what in ((0, "attention 0: a plain GRU"), (1, "attention 1: the state is the candidate")):
        case = arrays(4, 3, 5)
        case[2] = np.full(4, value, np.float32)
        yield what, *case


def attention_gradient(d_h, outputs, gates, splits) -> np.ndarray:
    """The definition in NumPy, position by position."""
    hidden = outputs.shape[1]
    d_attention = np.zeros(len(outputs))
    for first, end in itertools.pairwise(splits):
        before = np.zeros(hidden)
        for p in range(first, end):
            update, candidate = gates[p, hidden : 2 * hidden], gates[p, 2 * hidden :]
            d_attention[p] = -(d_h[p] * (before - candidate) * update).sum()
            before = outputs[p]
    return d_attention


def histories(rng: np.random.Generator, lengths: list[int], hidden: int) -> list[np.ndarray]:
    """d_h [N, H], outputs [N, H], gates [N, 3H], splits [B + 1]."""
    splits = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    floats = [rng.standard_normal((splits[-1], width)).astype(np.float32) for width in (hidden, hidden, 3 * hidden)]
    return [*floats, splits]


def batches(rng: np.random.Generator) -> Iterator[tuple]:
    """The cases: (description, d_h, outputs, gates, splits): random ones, then those that break a careless answer."""
    for _ in range(3):
        yield "random histories", *histories(rng, rng.integers(0, 7, 9).tolist(), int(rng.integers(2, 9)))
    for case, lengths, hidden in (
        ("rows of length 0", [0, 3, 0, 0, 2, 0], 4),
        ("a batch of one row", [5], 3),
        ("rows of one event", [1, 1, 1], 3),
        ("nothing but empty rows", [0, 0], 3),
        ("one hidden", [2, 3], 1),
    ):
        yield case, *histories(rng, lengths, hidden)


CELL_BUDGET = Traced(
    rule="two products, as in the GRU",
    ops={"MatMul|Einsum": 2, "Sigmoid": 1, "Tanh": 1},
    on=lambda rng: tensors(*next(cells(rng))[1:]),
    of="one position of a small batch",
    next_step="one product for both gates, one for the candidate",
)
GRADIENT_BUDGET = Traced(
    rule="all positions at once: no loop, no [B, T, H], nothing larger than [N + 1, H]",
    largest_elements=(POSITIONS + 1) * HIDDEN,
    ops={"MatMul": 0, "Einsum": 0},
    of=f"N = {POSITIONS} positions in 60 rows and H = {HIDDEN}",
    on=lambda rng: tensors(*histories(rng, rng.multinomial(POSITIONS, np.full(60, 1 / 60)).tolist(), HIDDEN)),
    next_step="shift the outputs by one and set row starts to 0",
)
CHECKS = {
    1: Exercise(
        asks="augru_cell(x, h, a, W, b, V, d): float32 [B, C], [B, H], [B], the weights -> the next state, float32 [B, H]",
        cases=cells,
        reference=cell,
        given=tensors,
        compare=Close("1 - a scales the update gate, for h and for the candidate's share"),
        limits=[CELL_BUDGET],
        run_it="a is [B]; the update gate is [B, H]",
    ),
    2: Exercise(
        asks="attention_gradient(d_h, outputs, gates, splits): float32 [N, H], [N, H], [N, 3H], int64 [B + 1] -> float32 [N]",
        cases=batches,
        reference=attention_gradient,
        given=tensors,
        compare=Close("before a row's first position the state is 0, not the last row's"),
        limits=[GRADIENT_BUDGET],
        run_it="outputs[p - 1] is the state before position p",
    ),
}

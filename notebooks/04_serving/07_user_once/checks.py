"""Checks of 04_serving/07_user_once: (1) a first layer that multiplies each user once, (2) attention over a shared history.

A sum of products may be off by `SCALED` of the sum of the products' sizes: a split product rounds other numbers than a joined
one, and where large terms cancel, its error is of the terms' size, not of the result's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf
from ctrlab.lessons.topics.user_once import products

from ctrlab.lessons.budget import Budget
from ctrlab.lessons.check import CheckFailed, call, parts

SCALED = 1e-6
LEAST = 1e-37  # below it float32 has few bits, or none
SLACK = 1.02  # of a budget of multiply-adds
UNKNOWN = "a server's graph, which is traced before it is known how many rows come"
STEP_UNKNOWN = "x.shape[0] is None there; tf.shape(x)[0] gives the number of rows"

Layers = Sequence[tuple[np.ndarray, np.ndarray]]


def reference_first_layer(users, candidates, row_of, kernel) -> tuple[np.ndarray, np.ndarray]:
    """The definition, float64 [N, H], and how far each number may be off."""
    x = np.concatenate([users[row_of], candidates], axis=1).astype(np.float64)
    return x @ kernel, SCALED * (abs(x) @ abs(kernel)) + LEAST


def check_first_layer(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `first_layer(users, candidates, row_of, W)` -> float32 [N, H]."""
    for case, question in _requests(rng):
        received = call(answer, *map(tf.constant, question), case=case)
        expected, allowed = reference_first_layer(*question)
        _require_within(
            "Each number is the whole row's, [user, candidate] times W",
            received,
            expected,
            allowed,
            case,
            "the users' columns meet the first rows of W, the candidates' the others; row_of says whose row each one is",
        )
    (users, given, hidden), rows = (6, 96, 16), 240
    question = _request(rng, np.repeat(np.arange(users), rows // users), users, given, 4, hidden)
    inputs = list(map(tf.constant, question))
    rule = "two products, one of U rows and one of N rows; no tensor [N, users' columns]"
    Budget(rule, largest_elements=2 * rows * hidden).enforce(
        answer, *inputs, next_step="multiply the users first, [U, H]; then gather the products"
    )
    products.require_few(
        answer,
        *inputs,
        most=int(SLACK * (users * given + rows * 4) * hidden),
        rule=rule,
        next_step="two products: one for U rows of users, one for N rows of candidates",
    )
    received = call(_as_served(answer), *inputs, case=UNKNOWN, next_step=STEP_UNKNOWN)
    _require_within("Each number is the whole row's", received, *reference_first_layer(*question), UNKNOWN, STEP_UNKNOWN)


def _as_served(answer: Callable) -> Callable:
    """The answer in a graph that knows no number of rows; its last input, the weights, is known."""

    def served(*inputs):
        *rows, weights = inputs
        specs = [tf.TensorSpec([None, *x.shape[1:]], x.dtype) for x in rows]
        return tf.function(lambda *given: answer(*given, weights), input_signature=specs, autograph=False)(*rows)

    return served


def _request(rng, row_of, users: int, user_columns: int, candidate_columns: int, hidden: int, size: float = 1.0) -> tuple:
    """(users [U, .], candidates [N, .], row_of [N], kernel [., H])."""
    shapes = (users, user_columns), (len(row_of), candidate_columns), (user_columns + candidate_columns, hidden)
    of_users, candidates, kernel = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    return np.float32(size) * of_users, candidates, np.asarray(row_of, np.int64), kernel


def _requests(rng: np.random.Generator) -> Iterator[tuple[str, tuple]]:
    """The cases: (description, the inputs): by chance, then those that break a careless answer."""

    def of(counts: Sequence[int], **options) -> tuple:
        columns = [int(n) for n in rng.integers(2, 9, 3)]
        return _request(rng, np.repeat(np.arange(len(counts)), counts), len(counts), *columns, **options)

    for _ in range(3):
        yield "several users", of(rng.integers(1, 7, int(rng.integers(2, 6))))
    yield "one user with many candidates", of([int(rng.integers(20, 40))])
    yield "users without candidates", of([0, 3, 0, 0, 2, 0])
    yield "one row", of([1])
    yield "each user with one candidate", of([1] * 5)
    yield "a user, and no candidate", of([0])
    yield "no users", of([])
    yield "candidates whose users take turns", _request(rng, rng.permutation([0, 1, 2, 0, 1, 2, 1]), 3, 4, 3, 5)
    yield "one column of each kind, one unit", _request(rng, [0, 0, 1], 2, 1, 1, 1)
    yield "users with far larger numbers", of([4, 2], size=1e4)
    yield "users with far smaller numbers", of([3, 2], size=1e-3)


def reference_attend(query, keys, layers: Layers) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """The definition, float64: (weights [N, T], attended [N, C]), and how far each number may be off."""
    q, k = np.broadcast_arrays(query[:, None].astype(np.float64), keys[None].astype(np.float64))  # [N, T, C]
    x = np.concatenate([q, k, q - k, q * k], axis=2)
    sizes = np.concatenate([abs(q), abs(k), abs(q) + abs(k), abs(q * k)], axis=2)
    off = np.zeros_like(x)
    for number, (kernel, bias) in enumerate(layers):
        off = off @ abs(kernel) + SCALED * (sizes @ abs(kernel) + abs(bias))
        x = x @ kernel + bias
        if number + 1 < len(layers):
            x = sizes = 1 / (1 + np.exp(-x))
            off = off / 4  # the steepest that a sigmoid gets
    scores, off = x[..., 0], off[..., 0]  # [N, T]
    e = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    weights = e / np.maximum(e.sum(axis=1, keepdims=True), LEAST)
    of_weights = weights * (2 * off.max(axis=1, keepdims=True, initial=0) + SCALED) + LEAST
    return (weights, weights @ keys), (of_weights, (of_weights + SCALED * weights) @ abs(keys) + LEAST)


def check_attend(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 2: `attend(query, keys, layers)` -> weights [N, T], attended [N, C], float32."""
    rules = (
        "A candidate's weights are the softmax of its scores, over the events",
        "Attended is the sum of weight times event, over the events",
    )
    step = "q meets Wq + Wd, k meets Wk - Wd, q * k meets Wp; the bias comes once; no sigmoid on top; exp of hundreds overflows"
    for case, question in _histories(rng):
        received = call(answer, *_tensors(question), case=case, next_step="run it by hand on such shapes, and print each one")
        for each in zip(rules, parts(received, "weights, attended", case=case), *reference_attend(*question)):
            _require_within(*each, case, step)
    n, t, c, units = 24, 20, 16, (32, 8, 1)
    inputs = _tensors(_history(rng, n, t, c, units))
    rule = "in the first layer, each candidate, each event and each q * k is multiplied by one matrix"
    Budget(rule, largest_elements=n * t * units[0]).enforce(
        answer, *inputs, next_step="split W in place of joining [q, k, q - k, q * k]"
    )
    least = (n + t) * c * units[0] + n * t * (c + sum(i * o for i, o in itertools.pairwise((c, *units))))
    products.require_few(
        answer,
        *inputs,
        most=int(SLACK * least),
        rule=rule,
        next_step="query [N, C] times Wq + Wd, keys [T, C] times Wk - Wd; add as [N, 1, units] + [T, units] + [N, T, units]",
    )
    question = _history(rng, 5, 3, c, units)
    received = call(_as_served(answer), *_tensors(question), case=UNKNOWN, next_step=STEP_UNKNOWN)
    for each in zip(rules, parts(received, "weights, attended", case=UNKNOWN), *reference_attend(*question)):
        _require_within(*each, UNKNOWN, STEP_UNKNOWN)


def _history(rng, candidates: int, events: int, width: int, units: Sequence[int]) -> tuple[np.ndarray, np.ndarray, Layers]:
    """(query [N, C], keys [T, C], layers), float32."""
    layers = [
        ((rng.standard_normal((i, o)) * 1.5 / np.sqrt(i)).astype(np.float32), rng.standard_normal(o).astype(np.float32))
        for i, o in itertools.pairwise((4 * width, *units))
    ]
    query, keys = (rng.standard_normal((rows, width)).astype(np.float32) for rows in (candidates, events))
    return query, keys, layers


def _tensors(question: tuple) -> tuple:
    return tf.nest.map_structure(tf.constant, question)


def _histories(rng: np.random.Generator) -> Iterator[tuple[str, tuple]]:
    """The cases: (description, the inputs): by chance, then those that break a careless answer."""
    width, units = int(rng.integers(2, 9)), (int(rng.integers(3, 20)), int(rng.integers(2, 9)), 1)
    for _ in range(3):
        yield "some candidates and events", _history(rng, *rng.integers(2, 9, 2).tolist(), width, units)
    yield "many candidates of a short history", _history(rng, 60, 2, width, units)
    yield "few candidates of a long history", _history(rng, 2, 60, width, units)
    yield "as many candidates as events as numbers", _history(rng, width, width, width, units)
    yield "one candidate", _history(rng, 1, 7, width, units)
    yield "one event", _history(rng, 5, 1, width, units)
    yield "no events", _history(rng, 3, 0, width, units)
    yield "no candidates", _history(rng, 0, 4, width, units)
    yield "one sigmoid layer", _history(rng, 4, 3, width, (5, 1))
    query, keys, layers = _history(rng, 4, 6, width, units)
    yield "events that are alike", (query, np.repeat(keys[:1], 6, axis=0), layers)
    query, keys, layers = _history(rng, 4, 6, width, units)
    (kernel, _), top = layers[-1], np.float32([rng.uniform(300, 400)])
    yield "scores of some hundreds", (query, keys, [*layers[:-1], (30 * kernel, top)])
    yield "candidates near an event, both far from 0", near(rng, 100.0)


def near(rng: np.random.Generator, distance: float, candidates: int = 12, events: int = 9, width: int = 8) -> tuple:
    """(query, keys, layers) where each candidate resembles an event, and both are so far from 0.

    The first layer hardly reads how large they are, but how far they are apart: Wd is its largest part.
    """
    query, keys, layers = _history(rng, candidates, events, width, (16, 1))
    keys += np.float32(distance)
    query = keys[rng.integers(0, events, candidates)] + np.float32(0.5) * query
    kernel = layers[0][0]
    kernel[: 2 * width] *= 0.1 / (1 + distance)
    kernel[3 * width :] *= 0.1 / (1 + distance) ** 2
    return query, keys, layers


def _require_within(rule: str, received, expected: np.ndarray, allowed: np.ndarray, case: str, next_step: str) -> None:
    rule = f"{rule}; here {case}."
    if received is None:
        raise CheckFailed(rule, expected="one dense tensor", received="None", next_step="end the function with a return")
    try:
        received = np.asarray(received)
    except Exception as error:
        raise CheckFailed(rule, expected="one dense tensor", received=type(received).__name__, next_step=next_step) from error
    if received.shape != expected.shape or received.dtype != np.float32:
        raise CheckFailed(
            rule,
            expected=f"float32 {list(expected.shape)}",
            received=f"{received.dtype} {list(received.shape)}",
            next_step=next_step,
        )
    wrong = ~(abs(received - expected) <= allowed)  # not a number is wrong, too
    for row, column in np.argwhere(wrong)[:1]:
        raise CheckFailed(
            rule,
            expected=f"{expected[row, column]:.7g}, within {allowed[row, column]:.1g}",
            received=f"{received[row, column]:.7g}",
            index=f"row {row}, column {column}",
            next_step=next_step,
        )


CHECKS = {1: check_first_layer, 2: check_attend}

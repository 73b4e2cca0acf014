"""Checks of 04_serving/07_user_once: (1) a first layer that multiplies each user once, (2) attention over a shared history.

A sum of products may be off by `SCALED` of the sum of the products' sizes: a split product rounds other numbers than a joined
one, and where large terms cancel, its error is of the terms' size, not of the result's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from ctrlab.lessons.topics.user_once.products import FewProducts

from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.exercise import Exercise, tensors
from ctrlab.lessons.limits import Stated
from ctrlab.lessons.outcome import plain

SCALED = 1e-6
LEAST = 1e-37  # below it float32 has few bits, or none
SLACK = 1.02  # of a budget of multiply-adds
STEP_UNKNOWN = "x.shape[0] is None there; tf.shape(x)[0] gives the number of rows"

ROUNDING = Stated(f"each product's numbers within {plain(SCALED)} of the sum of their terms' sizes")

Layers = Sequence[tuple[np.ndarray, np.ndarray]]
Bounded = tuple[np.ndarray, np.ndarray]  # numbers, and how far each may be off


def reference_first_layer(users, candidates, row_of, kernel) -> Bounded:
    """The definition, float64 [N, H]."""
    x = np.concatenate([users[row_of], candidates], axis=1).astype(np.float64)
    return x @ kernel, SCALED * (abs(x) @ abs(kernel)) + LEAST


def _request(rng, row_of, users: int, user_columns: int, candidate_columns: int, hidden: int, size: float = 1.0) -> tuple:
    """(users [U, .], candidates [N, .], row_of [N], kernel [., H])."""
    shapes = (users, user_columns), (len(row_of), candidate_columns), (user_columns + candidate_columns, hidden)
    of_users, candidates, kernel = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    return np.float32(size) * of_users, candidates, np.asarray(row_of, np.int64), kernel


def _requests(rng: np.random.Generator) -> Iterator[tuple]:
    """The cases: (description, users, candidates, row_of, W): by chance, then those that break a careless answer."""

    def of(counts: Sequence[int], **options) -> tuple:
        columns = [int(n) for n in rng.integers(2, 9, 3)]
        return _request(rng, np.repeat(np.arange(len(counts)), counts), len(counts), *columns, **options)

    for _ in range(3):
        yield "several users", *of(rng.integers(1, 7, int(rng.integers(2, 6))))
    yield "one user with many candidates", *of([int(rng.integers(20, 40))])
    yield "users without candidates", *of([0, 3, 0, 0, 2, 0])
    yield "one row", *of([1])
    yield "each user with one candidate", *of([1] * 5)
    yield "a user, and no candidate", *of([0])
    yield "no users", *of([])
    yield "candidates whose users take turns", *_request(rng, rng.permutation([0, 1, 2, 0, 1, 2, 1]), 3, 4, 3, 5)
    yield "one column of each kind, one unit", *_request(rng, [0, 0, 1], 2, 1, 1, 1)
    yield "users with far larger numbers", *of([4, 2], size=1e4)
    yield "users with far smaller numbers", *of([3, 2], size=1e-3)


def reference_attend(query, keys, layers: Layers) -> tuple[Bounded, Bounded]:
    """The definition, float64: weights [N, T] and attended [N, C]."""
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
    return (weights, of_weights), (weights @ keys, (of_weights + SCALED * weights) @ abs(keys) + LEAST)


def _history(rng, candidates: int, events: int, width: int, units: Sequence[int]) -> tuple[np.ndarray, np.ndarray, Layers]:
    """(query [N, C], keys [T, C], layers), float32."""
    layers = [
        ((rng.standard_normal((i, o)) * 1.5 / np.sqrt(i)).astype(np.float32), rng.standard_normal(o).astype(np.float32))
        for i, o in itertools.pairwise((4 * width, *units))
    ]
    query, keys = (rng.standard_normal((rows, width)).astype(np.float32) for rows in (candidates, events))
    return query, keys, layers


def _histories(rng: np.random.Generator) -> Iterator[tuple]:
    """The cases: (description, query, keys, layers): by chance, then those that break a careless answer."""
    width, units = int(rng.integers(2, 9)), (int(rng.integers(3, 20)), int(rng.integers(2, 9)), 1)
    for _ in range(3):
        yield "some candidates and events", *_history(rng, *rng.integers(2, 9, 2).tolist(), width, units)
    yield "many candidates of a short history", *_history(rng, 60, 2, width, units)
    yield "few candidates of a long history", *_history(rng, 2, 60, width, units)
    yield "as many candidates as events as numbers", *_history(rng, width, width, width, units)
    yield "one candidate", *_history(rng, 1, 7, width, units)
    yield "one event", *_history(rng, 5, 1, width, units)
    yield "no events", *_history(rng, 3, 0, width, units)
    yield "no candidates", *_history(rng, 0, 4, width, units)
    yield "one sigmoid layer", *_history(rng, 4, 3, width, (5, 1))
    query, keys, layers = _history(rng, 4, 6, width, units)
    yield "events that are alike", query, np.repeat(keys[:1], 6, axis=0), layers
    query, keys, layers = _history(rng, 4, 6, width, units)
    (kernel, _), top = layers[-1], np.float32([rng.uniform(300, 400)])
    yield "scores of some hundreds", query, keys, [*layers[:-1], (30 * kernel, top)]
    yield "candidates near an event, both far from 0", *near(rng, 100.0)


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


@dataclass(frozen=True)
class Within:
    """A float32 tensor of which each number is as near the reference as that allows."""

    rule: str
    next_step: str

    def __call__(self, received, expected: Bounded, case: str, question: Sequence) -> None:
        rule, (right, allowed) = f"{self.rule}; here {case}.", expected
        try:
            found = np.asarray(received)
        except Exception:  # it has no one array
            found = np.asarray(None)
        if (found.shape, found.dtype) != (right.shape, np.float32):
            kind = "None" if received is None else type(received).__name__
            raise CheckFailed(
                rule,
                expected=f"float32 {list(right.shape)}",
                received=kind if found.dtype == object else f"{found.dtype} {list(found.shape)}",
                next_step="end the function with a return" if received is None else self.next_step,
            )
        for row, column in np.argwhere(~(abs(found - right) <= allowed))[:1]:  # not a number is wrong, too
            raise CheckFailed(
                rule,
                expected=f"{right[row, column]:.7g}, within {allowed[row, column]:.1g}",
                received=f"{found[row, column]:.7g}",
                index=f"row {row}, column {column}",
                next_step=self.next_step,
            )


def layer(next_step: str) -> Within:
    return Within("Each number is the whole row's, [user, candidate] times W", next_step)


def attention(next_step: str) -> dict[str, Within]:
    return {
        "weights": Within("A candidate's weights are the softmax of its scores, over the events", next_step),
        "attended": Within("Attended is the sum of weight times event, over the events", next_step),
    }


def as_served(answer: Callable) -> Callable:
    """The answer in a graph that knows no number of rows; its last input, the weights, is known."""

    def served(*inputs):
        *rows, weights = inputs
        specs = [tf.TensorSpec([None, *x.shape[1:]], x.dtype) for x in rows]
        return tf.function(lambda *given: answer(*given, weights), input_signature=specs, autograph=False)(*rows)

    return served


def in_a_server(on: Callable[[np.random.Generator], tuple], **judged) -> Exercise:
    """A limit: the answer is right in a server's graph, too."""
    case = "a server's graph, which is traced before it is known how many rows come"
    return Exercise(
        asks="the function as it is served",
        cases=lambda rng: [(case, *on(rng))],
        given=tensors,
        ask=as_served,
        run_it=STEP_UNKNOWN,
        **judged,
    )


USERS, GIVEN, ROWS, HIDDEN = 6, 96, 240, 16
CANDIDATES, EVENTS, WIDTH, UNITS = 24, 20, 16, (32, 8, 1)
OF_PAIRS = WIDTH + sum(i * o for i, o in itertools.pairwise((WIDTH, *UNITS)))


def _full_request(rng: np.random.Generator) -> tuple:
    return _request(rng, np.repeat(np.arange(USERS), ROWS // USERS), USERS, GIVEN, 4, HIDDEN)


CHECKS = {
    1: Exercise(
        asks="first_layer(users, candidates, row_of, W): [U, Du], [N, Dc], int64 [N], [Du + Dc, H] -> [N, H], else float32",
        cases=_requests,
        reference=reference_first_layer,
        given=tensors,
        compare=layer("the users' columns meet the first rows of W, the candidates' the others; row_of has each one's user"),
        limits=[
            FewProducts(
                rule="two products, one of U rows and one of N rows; no tensor [N, users' columns]",
                largest_elements=2 * ROWS * HIDDEN,
                multiply_adds=int(SLACK * (USERS * GIVEN + ROWS * 4) * HIDDEN),
                on=lambda rng: tensors(*_full_request(rng)),
                of=f"{USERS} users of {GIVEN} columns, {ROWS} candidates of 4, and {HIDDEN} units",
                next_step="which products do you compute once per candidate that are the same for all candidates of a user?",
                fewer="two products: one for U rows of users, one for N rows of candidates",
            ),
            in_a_server(_full_request, reference=reference_first_layer, compare=layer(STEP_UNKNOWN)),
            ROUNDING,
        ],
    ),
    2: Exercise(
        asks="attend(query, keys, layers): [N, C], [T, C], (W, bias) pairs -> weights [N, T], attended [N, C], float32",
        cases=_histories,
        reference=reference_attend,
        given=tensors,
        compare=attention(
            "q meets Wq + Wd, k meets Wk - Wd, q * k meets Wp; the bias comes once; no sigmoid on top; exp of hundreds overflows"
        ),
        limits=[
            FewProducts(
                rule="in the first layer, each candidate, each event and each q * k is multiplied by one matrix",
                largest_elements=CANDIDATES * EVENTS * UNITS[0],
                multiply_adds=int(SLACK * ((CANDIDATES + EVENTS) * WIDTH * UNITS[0] + CANDIDATES * EVENTS * OF_PAIRS)),
                on=lambda rng: tensors(*_history(rng, CANDIDATES, EVENTS, WIDTH, UNITS)),
                of=f"N = {CANDIDATES}, T = {EVENTS}, C = {WIDTH} and layers of {', '.join(map(str, UNITS))} units",
                next_step="split W in place of joining [q, k, q - k, q * k]",
                fewer="which matrix does a candidate alone meet, which an event alone, and which their product?",
            ),
            in_a_server(
                lambda rng: _history(rng, 5, 3, WIDTH, UNITS), reference=reference_attend, compare=attention(STEP_UNKNOWN)
            ),
            ROUNDING,
        ],
        run_it="run it by hand on such shapes, and print each one",
    ),
}

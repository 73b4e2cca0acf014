"""Checks of 02_ops/13_threads_and_stages: (1) a stage that prepares batches ahead, (2) a choice that noise can't make."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from ctrlab.lessons.check import CheckFailed, call
from ctrlab.lessons.exercise import Exercise, Same
from ctrlab.lessons.limits import stated
from ctrlab.profiling.machine import cores
from ctrlab.profiling.timing import CONFIDENCE, Interval, now

PATIENCE = 5.0  # seconds until the stage must have prepared what it may


class Encoding:
    """Stands in for a model's input part: it takes a different time in each call, and counts its calls."""

    def __init__(self, slow: float = 0.01):
        self.calls, self.slow = 0, slow

    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        def work(x):
            self.calls += 1
            time.sleep(random.uniform(0, self.slow))
            return x * 2 + 1

        return tf.ensure_shape(tf.numpy_function(work, [features], tf.int64), [3])


def batches(count: int, first: int) -> tf.data.Dataset:
    """`count` batches of (features int64 [3], labels int64)."""
    return tf.data.Dataset.range(first, first + count).map(lambda i: (i * tf.constant([1, 10, 100], tf.int64), i))


@stated("after the first batch was taken, at least `depth` more are encoded, and at most `depth` + 4 + twice the machine's cores")
def check_staged(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `staged(batches, encode, depth)` -> a dataset of (encode(features), labels)."""
    for count, depth in ((0, 2), (1, 3), (int(rng.integers(30, 60)), int(rng.integers(1, 5)))):
        first = int(rng.integers(0, 1_000))
        data, encode = batches(count, first), Encoding()
        # Without arguments: `call` compares a function's inputs before and after, and a data set can't be.
        received = call(lambda: answer(data, encode, depth), case=f"{count} batches, depth {depth}")  # noqa: B023
        _same_batches(received, count, first)
    _prepared_ahead(answer, int(rng.integers(3, 7)))
    _prepared_ahead(answer, 2 * cores() + int(rng.integers(6, 12)))  # more than a map with threads keeps ready by itself
    _nothing_is_kept(received, encode)


def _nothing_is_kept(staged: tf.data.Dataset, encode: Encoding) -> None:
    before = encode.calls
    for _ in staged:
        pass
    if encode.calls != 2 * before:
        raise CheckFailed(
            "Budget: no batch is kept once it was taken.",
            expected=f"{before} batches encoded in a second epoch",
            received=f"{encode.calls - before} batches",
            next_step="memory holds what waits: which stage keeps what was taken?",
        )


def _same_batches(received, count: int, first: int) -> None:
    if not isinstance(received, tf.data.Dataset):
        raise CheckFailed(
            "The stage is a data set.", expected="tf.data.Dataset", received=type(received).__name__, next_step="batches.map(...)"
        )
    found = []
    for entry in itertools.islice(received, count + 1):
        if not (isinstance(entry, tuple) and len(entry) == 2):
            raise CheckFailed("A batch is (features, labels).", expected="a pair", received=entry, next_step="keep the labels")
        found.append((entry[0].numpy().tolist(), int(entry[1])))
    wanted = [([2 * i * f + 1 for f in (1, 10, 100)], i) for i in range(first, first + count)]
    if found != wanted:
        at = next((k for k, (a, b) in enumerate(zip(found, wanted)) if a != b), min(len(found), len(wanted)))
        raise CheckFailed(
            "The same batches come in the same order, encoded, each with its labels.",
            expected=wanted[at] if at < len(wanted) else "the end",
            received=found[at] if at < len(found) else "the end",
            index=f"batch {at}",
            next_step="is every batch encoded once, and the order kept?",
        )


def _prepared_ahead(answer, depth: int) -> None:
    most = depth + 2 * cores() + 4
    encode = Encoding(slow=0.0)
    staged = answer(batches(20 * most, 0), encode, depth)
    if encode.calls:
        raise CheckFailed(
            "Budget: nothing is encoded before somebody asks for a batch.",
            expected="0 batches encoded",
            received=f"{encode.calls} batches encoded",
            next_step="a data set works when it is iterated; do not iterate it yourself",
        )
    following = iter(staged)
    next(following)
    waited = now()
    while encode.calls < 1 + depth and now() - waited < PATIENCE:
        time.sleep(0.01)
    time.sleep(0.2)
    if encode.calls < 1 + depth:
        raise CheckFailed(
            "While one batch is trained on, the next `depth` are prepared.",
            expected=f"{1 + depth} batches encoded after the first was taken",
            received=f"{encode.calls} batches encoded",
            next_step="what keeps encoded batches ready before somebody asks? Where must it stand?",
        )
    if encode.calls > 1 + most:
        raise CheckFailed(
            "Budget: about `depth` batches wait ready, not the whole data set.",
            expected=f"at most {1 + most} batches encoded after the first was taken",
            received=f"{encode.calls} batches encoded",
            next_step="memory holds what waits: `depth` batches, no more",
        )


def best(ratios: dict[str, list[float]]) -> str | None:
    """The definition: among the settings whose 95 % interval lies above 1, the one with the greatest median."""
    found = {name: Interval.of(pairs) for name, pairs in ratios.items()}
    sure = {name: i.median for name, i in found.items() if i.coverage >= CONFIDENCE and i.low > 1.0}
    return max(sure, key=sure.get) if sure else None


def measured(rng: np.random.Generator) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """The cases: (description, {setting: its speed-ups, one a pair})."""

    def around(middle: float, spread: float, pairs: int = 9) -> list[float]:
        return sorted(rng.uniform(middle - spread, middle + spread, pairs).tolist(), key=lambda _: rng.random())

    yield from {
        "nothing was measured": {},
        "all are slower": {"2 x 2": around(0.9, 0.05), "4 x 1": around(0.7, 0.1)},
        "one is faster for sure": {"1 x 1": around(0.9, 0.05), "2 x 1": around(1.2, 0.1)},
        "two are, one by more": {"1 x 1": around(1.4, 0.1), "2 x 1": around(1.2, 0.05), "1 x 2": around(1.1, 0.05)},
        "the fastest may be luck": {"4 x 4": [0.4, 0.5, 0.8, *around(1.9, 0.1, 6)], "2 x 1": around(1.1, 0.02)},
        "one lucky pair": {"4 x 4": [9.0, *around(0.98, 0.03, 8)]},
        "the faster one varies more": {"1 x 1": [1.1, 1.1, 1.3, 1.4, 1.4, 1.4, 1.5, 1.5, 1.5], "2 x 1": around(1.2, 0.02)},
        "one lucky pair among good ones": {"4 x 4": [9.0, *around(1.15, 0.03, 8)], "2 x 1": around(1.3, 0.03)},
        "the luck comes first": {"4 x 4": [1.5] * 6 + [0.5] * 3},
        "just enough pairs": {"4 x 4": around(2.0, 0.1, 6)},
        "one pair too few": {"4 x 4": around(2.0, 0.1, 5)},
        "only luck": {"4 x 4": [0.4, 0.5, 0.8, *around(1.9, 0.1, 6)]},
        "too few pairs to be sure": {"4 x 4": around(2.0, 0.1, 3)},
        "exactly as fast": {"4 x 4": [1.0] * 9},
    }.items()


CHECKS = {
    1: check_staged,
    2: Exercise(
        asks="choose(ratios): {setting: its speed-ups, one a pair} -> the setting, or None for the one there is",
        cases=measured,
        reference=best,
        compare=Same(
            "Budget: a setting is chosen only if its interval, of 95 %, lies above 1; of those the fastest by its median",
            "Interval.of(pairs) has low, median and coverage",
            shown=lambda ratios: str({name: str(Interval.of(pairs)) for name, pairs in ratios.items()}),
        ),
    ),
}

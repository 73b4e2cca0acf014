"""Checks of 03_embedding/04_eviction: (1) the eviction of rows, (2) the share of evicted keys that come back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ctrlab.lessons.exercise import Close, Each, Exercise, Number

Table = dict[str, np.ndarray]


def evict(table: Table, now: int, steps_to_live: int) -> tuple[Table, np.ndarray]:
    """The definition: removes keys that no step has touched for more than `steps_to_live` steps, with all their data."""
    stays = now - table["steps"] <= steps_to_live
    return {name: array[stays] for name, array in table.items()}, np.sort(table["keys"][~stays])


def tables(rng: np.random.Generator) -> Iterator[tuple[str, Table, int, int]]:
    """The cases: (description, table, now, steps_to_live)."""

    def made(steps, dim: int = 3, slots: tuple[str, ...] = ("m", "v")) -> Table:
        n = len(steps)
        ends = np.array([-1, np.iinfo(np.int64).min, np.iinfo(np.int64).max])
        keys = rng.permutation(np.unique(np.concatenate([ends, rng.integers(-(1 << 40), 1 << 40, n + 9)])))[:n]
        rows = {name: rng.standard_normal((n, dim)).astype(np.float32) for name in ("values", *slots)}
        return {"keys": keys, **rows, "frequencies": rng.integers(1, 9, n), "steps": np.asarray(steps, np.int64)}

    for _ in range(3):
        yield "random rows", made(rng.integers(1, 60, int(rng.integers(5, 40)))), 60, int(rng.integers(5, 50))
    yield "other slots", made(rng.integers(1, 20, 9), 5, ("accumulator", "linear")), 20, 7
    yield "no slots", made(rng.integers(1, 20, 9), 1, ()), 20, 7
    yield "rows just at the limit", made([10, 11, 12, 13]), 20, 8
    yield "nothing that is old", made([20, 19, 20]), 20, 5
    yield "nothing that is young", made([3, 2, 1]), 20, 5
    yield "one row", made([int(rng.integers(1, 5))]), 9, 2
    yield "an empty table", made([]), 9, 2


def comes_back(stream: Sequence[np.ndarray], every: int, steps_to_live: int) -> float:
    """The definition: of the distinct keys of all steps, the fraction that had a row before and lost it. Steps count from 1.
    After each `every`-th step, keys are removed that last came more than `steps_to_live` steps before it.
    """
    last: dict[int, int] = {}
    once: set[int] = set()
    came = late = 0
    for step, keys in enumerate(stream, 1):
        for key in np.unique(keys).tolist():
            came += 1
            late += key in once and key not in last
            last[key] = step
            once.add(key)
        if step % every == 0:
            last = {key: s for key, s in last.items() if step - s <= steps_to_live}
    return late / max(came, 1)


def streams(rng: np.random.Generator) -> Iterator[tuple[str, list[np.ndarray], int, int]]:
    """The cases: (description, keys of each step, every, steps_to_live)."""

    def random(steps: int, keys: int) -> list[np.ndarray]:
        return [rng.zipf(1.3, keys).clip(max=99) - 5 for _ in range(steps)]

    for _ in range(3):
        yield "random steps", random(int(rng.integers(8, 30)), 12), int(rng.integers(1, 5)), int(rng.integers(1, 6))
    one = np.array([int(rng.integers(1, 1 << 50))])
    other = one + 1
    yield "a key that comes back just in time", [one, other, other, one], 1, 2
    yield "a key that comes back a step too late", [one, other, other, other, one], 1, 2
    yield "a key that is too old where nothing was let go yet", [one, *[other] * 5, one], 10, 2
    yield "a key that comes back between two evictions", [one, other, other, one], 2, 1
    yield "a key that comes back in the step after which it would have gone", [one, other, other, one], 4, 1
    yield "a key that comes back twice", [one, other, other, other, one, other, other, other, one], 1, 2
    yield "keys that come more than once in a step", [np.repeat(one, 3), other, other, other, np.repeat(one, 2)], 1, 2
    yield "a step without keys", [one, one[:0], one[:0], one], 1, 1
    yield "no steps", [], 1, 1


CHECKS = {
    1: Exercise(
        asks="evict(table, now, steps_to_live): arrays by name, int, int -> what remains of it, the removed keys int64, rising",
        cases=tables,
        reference=evict,
        compare={
            "left": Each(
                "array",
                Close(
                    "a row stays while now - its step is at most steps_to_live; rows keep their order, and each its neighbours",
                    dtype=None,
                    rtol=0,
                ),
            ),
            "gone": Close("the keys of the rows that are not left: a delta must tell of them", dtype=np.int64),
        },
    ),
    2: Exercise(
        asks="comes_back(stream, every, steps_to_live): a list of int64 [n] each, int, int -> float",
        cases=streams,
        reference=comes_back,
        compare=Number(
            "The share is of a step's keys, each once, that had a row and lost it",
            "play it: look a step's keys up, note the step, and after each `every`-th step let the old ones go",
            atol=1e-9,
            shown=lambda stream, every, steps_to_live: f"every={every}, steps_to_live={steps_to_live}",
        ),
    ),
}

"""Checks of 03_embedding/04_eviction: (1) the eviction of rows, (2) the share of evicted keys that come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ctrlab.lessons.check import CheckFailed, call, parts, require_close

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


def check_evict(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `evict(table, now, steps_to_live)` -> the remaining table, and the removed keys, ascending."""
    for case, table, now, steps_to_live in tables(rng):
        received = call(answer, table, now, steps_to_live, case=case)
        left, gone = parts(received, "what is left, the keys that went", case=case)
        wanted, wanted_gone = evict(table, now, steps_to_live)
        if not isinstance(left, dict) or left.keys() != wanted.keys():
            raise CheckFailed(
                f"What is left is a table with the same arrays; here {case}.",
                expected=list(wanted),
                received=list(left) if isinstance(left, dict) else type(left).__name__,
                next_step="cut every array of the table, slots and counts too",
            )
        step = "a row stays while now - its step is at most steps_to_live; rows keep their order, and each its neighbours"
        for name, array in wanted.items():
            require_close(left[name], array, case=f"{name!r} of {case}", next_step=step, rtol=0)
        step = "the keys of the rows that are not left: a delta must tell of them"
        require_close(gone, wanted_gone, case=f"the keys that went, of {case}", next_step=step, rtol=0)


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


def check_comes_back(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 2: `comes_back(stream, every, steps_to_live)` -> the fraction of keys that lost their row and come again."""
    for case, stream, every, steps_to_live in streams(rng):
        stream = [keys.astype(np.int64) for keys in stream]
        received = call(answer, stream, every, steps_to_live, case=case)
        expected = comes_back(stream, every, steps_to_live)
        if not isinstance(received, float | int | np.floating) or not abs(float(received) - expected) <= 1e-9:
            raise CheckFailed(
                f"The share of a step's keys, each once, that had a row and lost it; here {case}.",
                expected=expected,
                received=repr(received),
                index=f"every={every}, steps_to_live={steps_to_live}",
                next_step="play it: look a step's keys up, note the step, and after each `every`-th step let the old ones go",
            )


CHECKS = {1: check_evict, 2: check_comes_back}

"""Checks of 03_embedding/03_admission: (1) a filter that counts every id, (2) a counting Bloom filter's step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from ctrlab.lessons.check import CheckFailed, call
from ctrlab.lessons.exercise import Close, Exercise
from ctrlab.lessons.limits import NoLoop, Stated

FULL = 255
MOST_STEPS = 200  # of the interpreter, lines and calls
MANY = 5_000
ENDS = (-1, 0, np.iinfo(np.int64).min, np.iinfo(np.int64).max)


def admit(ids: np.ndarray, threshold: int, counts: Counter) -> np.ndarray:
    """The definition: adds the batch to `counts`. Returns its ids that have come at least `threshold` times, ascending, each
    once.
    """
    counts.update(ids.tolist())
    return np.array(sorted({i for i in ids.tolist() if counts[i] >= threshold}), np.int64)


def streams(rng: np.random.Generator) -> Iterator[tuple[str, int, list[np.ndarray]]]:
    """The cases: (description, threshold, batches): random ones, then those that break a careless answer."""
    for _ in range(3):
        batches = [rng.zipf(1.5, int(rng.integers(5, 60))).clip(max=1 << 60) - 3 for _ in range(4)]
        yield "random ids", int(rng.integers(2, 5)), batches
    one = int(rng.integers(1 << 40, 1 << 50))
    yield "an id that reaches the threshold within one batch", 3, [np.array([one, 5, one, one])]
    yield "an id that reaches it just so, batch by batch", 3, [np.array([one]), np.array([7]), np.array([one]), np.array([one])]
    yield "an id that has a row, and comes again", 2, [np.array([one, one]), np.array([one]), np.array([one, 3])]
    yield "ids at both ends of int64, and -1", 2, [np.array(ENDS), rng.permutation(np.array(ENDS))]
    yield "an id that comes more than 255 times", 400, [np.full(300, one), np.append(np.full(99, one), 5), np.array([one, 5])]
    yield "threshold 1", 1, [np.array([one, 2, one])]
    yield "a batch without ids", 1, [np.array([2]), np.zeros(0, np.int64)]


def check_counter(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `admit(ids, threshold, counts)` -> the ids of the batch that may have a row from now on."""
    for case, threshold, batches in streams(rng):
        counts, wanted_counts = {}, Counter()
        for b, ids in enumerate(batches):
            where = f"{case}, threshold {threshold}, batch {b}"
            received = call(_with(answer, threshold, counts), ids.astype(np.int64), case=where)
            wanted = admit(ids, threshold, wanted_counts)
            _require_whole(counts, where)
            if counts != wanted_counts:
                differ = {k: (wanted_counts.get(k, "no entry"), counts.get(k, "no entry")) for k in wanted_counts | counts}
                key, (expected, found) = next((k, v) for k, v in differ.items() if v[0] != v[1])
                raise CheckFailed(
                    f"`counts` holds how often each id has come, this batch included; here {where}.",
                    expected=f"id {key}: {expected}",
                    received=f"id {key}: {found}",
                    next_step="an id that comes three times in a batch counts three; write into the dictionary that was given",
                )
            require_ids(received, wanted, where)


def _require_whole(counts: dict, case: str) -> None:
    for key, n in counts.items():
        if not isinstance(n, int | np.integer):
            rule, step = f"A count is a whole number; here {case}.", "add the whole numbers that np.unique gives"
            raise CheckFailed(rule, expected="an int", received=type(n).__name__, index=f"id {key}", next_step=step)


def _with(answer: Callable, threshold: int, counts: dict) -> Callable:
    """`answer` as a function of ids only, because it may change `counts`, and `call` forbids changes of inputs."""
    return lambda ids: answer(ids, threshold, counts)


def require_ids(received, wanted: np.ndarray, case: str) -> None:
    rule = f"Admitted are the ids of the batch that have come often enough, ascending and each once; here {case}."
    step = "how often had each id of the batch come, this batch and all before it?"
    if not isinstance(received, np.ndarray) or received.dtype != np.int64:
        kind = f"an array of {received.dtype}" if isinstance(received, np.ndarray) else type(received).__name__
        raise CheckFailed(
            rule, expected="an array of int64", received=kind, next_step="return an array, of the type that `ids` has"
        )
    if not np.array_equal(received, wanted):
        raise CheckFailed(rule, expected=wanted.tolist(), received=received.tolist(), next_step=step)


def count_in_filter(counters: np.ndarray, places: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The definition: adds each id's count to its counters, which saturate at 255. Their minimum is an upper limit of the id's
    count.
    """
    total = counters.astype(np.int64)
    np.add.at(total, places, counts[:, None])
    counters[:] = np.minimum(total, FULL)
    return counters[places].min(axis=1, initial=FULL).astype(np.int64)


def questions(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """The cases: (description, counters uint8 [m], places int64 [n, k], counts int64 [n])."""

    def drawn(n: int, k: int, m: int) -> np.ndarray:
        return np.stack([rng.permutation(m)[:k] for _ in range(n)]) if n else np.zeros((0, k), np.int64)

    for _ in range(3):
        n, k, m = int(rng.integers(2, 20)), int(rng.integers(2, 6)), int(rng.integers(200, 400))
        yield "ids that hardly meet", rng.integers(0, 4, m).astype(np.uint8), drawn(n, k, m), rng.integers(1, 4, n)
    yield "ids that are only asked after", rng.integers(0, 4, 50).astype(np.uint8), drawn(6, 3, 50), np.zeros(6, np.int64)
    yield "a small filter, where ids meet", np.zeros(7, np.uint8), drawn(9, 3, 7), rng.integers(1, 4, 9)
    yield "two ids with the same places", np.zeros(9, np.uint8), np.array([[1, 4], [4, 1]]), np.array([2, 3])
    yield "one counter an id", np.zeros(5, np.uint8), np.array([[2], [2], [4]]), np.array([1, 1, 1])
    yield "counters that are nearly full", np.full(6, 254, np.uint8), drawn(2, 3, 6), np.array([1, 9])
    yield "a count that no counter holds", np.zeros(6, np.uint8), np.array([[0, 5]]), 2**32 + rng.integers(1, 200, 1)
    yield "no ids", rng.integers(0, 9, 5).astype(np.uint8), drawn(0, 3, 5), np.zeros(0, np.int64)


def with_counters(answer: Callable) -> Callable:
    """The answer on counters of its own, which it is meant to change: it returns them, and then the answer's counts."""

    def asked(counters: np.ndarray, places: np.ndarray, counts: np.ndarray) -> tuple:
        counters = counters.copy()
        found = answer(counters, places, counts)
        return counters, found

    return asked


NO_LOOP = NoLoop(
    "ids",
    many=MANY,
    most=MOST_STEPS,
    on=lambda rng: (np.zeros(1 << 16, np.uint8), rng.integers(0, 1 << 16, (MANY, 3)), np.ones(MANY, np.int64)),
)
CHECKS = {
    1: check_counter,
    2: Exercise(
        asks="count_in_filter(counters, places, counts): uint8 [m], changed, int64 [n, k], int64 [n] -> int64 [n], never too low",
        cases=questions,
        reference=with_counters(count_in_filter),
        ask=with_counters,
        compare={
            "counters": Close(
                "two ids of a batch may share a counter: what does it count then? And what is 255 + 1 in uint8?", dtype=np.uint8
            ),
            "counts": Close(
                "an id has come no more often than its least counter says; read them after the whole batch was added",
                dtype=np.int64,
            ),
        },
        limits=[Stated(NO_LOOP.says(), lambda answer, rng: NO_LOOP(with_counters(answer), rng))],
    ),
}

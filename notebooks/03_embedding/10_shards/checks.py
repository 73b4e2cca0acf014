"""Checks of 03_embedding/10_shards: (1) the keys that a worker requests from the owners, (2) merged gradients of equal keys;
no clock.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from ctrlab.lessons.topics.shards.line_budget import within
from ctrlab.lessons.topics.shards.whole_arrays import WholeArray

from ctrlab.data.splitmix import mix
from ctrlab.lessons.check import CheckFailed, parts
from ctrlab.lessons.exercise import Close, Exercise
from ctrlab.lessons.limits import Peak, Stated

DISTINCT = "np.unique(ids, return_inverse=True) gives the distinct keys, and for each id the place of its key among them"
ORDER = "the keys of owner 0 come first, then those of owner 1; place counts along them: np.concatenate(keys)[place] is ids"
SUM = "find each key's place among the distinct ones, and add up by hand the rows of a key that comes twice"
MANY = 20_000
DISTINCT_KEYS = 40_000
"""The number of distinct keys, too large for int16."""
BYTES = 600
"""The most bytes that a careful answer holds at once, per id or key, with rows of 4 numbers."""
LINES = 60
"""The most lines that a careful answer runs, besides some per worker."""

LINEAR, FEW = "4,000 ids of 2,000 distinct keys", 4_000
"""What the memory is counted on, before the large cases."""

Owner = Callable[[np.ndarray, int], np.ndarray]


def right_keys_and_places(found, needed: np.ndarray, case: str, question: Sequence) -> None:
    """Each needed key once, at its owner and in any order there, and the ids' places along them."""
    ids, workers, owner = question
    keys, place = parts(found, "keys, place", case=case)
    keys = _require_parts(keys, workers, case)
    _require_owners(keys, workers, owner, case)
    _require_once(keys, needed, case, f"{len(ids)} ids, {workers} workers")
    _require_places(keys, place, ids, case)


def _require_parts(keys: object, workers: int, case: str) -> list[np.ndarray]:
    good = isinstance(keys, list | tuple) and len(keys) == workers
    if not good:
        raise CheckFailed(
            f"There is one array of keys per worker, also where it is empty; here {case}.",
            expected=f"a list of {workers} arrays",
            received=f"{len(keys)} of them" if isinstance(keys, list | tuple) else type(keys).__name__,
            next_step="make one array for each of range(workers): a worker may own none of the keys",
        )
    for worker, each in enumerate(keys):
        if not isinstance(each, np.ndarray) or each.dtype != np.int64 or each.ndim != 1:
            told = f"{each.dtype} {list(each.shape)}" if isinstance(each, np.ndarray) else type(each).__name__
            raise CheckFailed(
                f"Keys are int64 [n]; here {case}.",
                expected="a NumPy array, int64, of one dimension",
                received=told,
                index=f"keys[{worker}]",
                next_step="select from the array of distinct keys, which is int64",
            )
    return list(keys)


def _require_owners(keys: list[np.ndarray], workers: int, owner: Owner, case: str) -> None:
    for worker, each in enumerate(keys):
        right = owner(each, workers)
        if (wrong := np.flatnonzero(right != worker)).size:
            raise CheckFailed(
                f"A key goes to its owner, as owner(keys, workers) says; here {case}.",
                expected=f"key {each[wrong[0]]} in keys[{right[wrong[0]]}]",
                received=f"in keys[{worker}]",
                next_step="call owner(keys, workers) once, on the distinct keys, and select by what it returns",
            )


def _require_once(keys: list[np.ndarray], needed: np.ndarray, case: str, where: str) -> None:
    sent = np.concatenate(keys)
    if odd := np.setdiff1d(sent, needed).tolist():
        raise CheckFailed(
            f"Only keys are asked for that the batch has; here {case}.",
            expected="keys that are among the ids",
            received=odd[0],
            index=where,
            next_step=DISTINCT,
        )
    if len(sent) > len(needed):
        raise CheckFailed(
            f"Budget: each distinct key travels once; here {case}.",
            expected=f"{8 * len(needed):,} bytes of keys",
            received=f"{8 * len(sent):,} bytes",
            index=where,
            next_step=DISTINCT,
        )
    if missing := np.setdiff1d(needed, sent).tolist():
        raise CheckFailed(
            f"Every key of the batch is asked for; here {case}.",
            expected=f"{len(needed)} keys, {missing[0]} among them",
            received=f"{len(sent)} keys",
            index=where,
            next_step=DISTINCT,
        )


def _require_places(keys: list[np.ndarray], place: object, ids: np.ndarray, case: str) -> None:
    sent = np.concatenate(keys)
    good = isinstance(place, np.ndarray) and np.issubdtype(place.dtype, np.integer) and place.shape == ids.shape
    if not good:
        told = f"{place.dtype} {list(place.shape)}" if isinstance(place, np.ndarray) else type(place).__name__
        raise CheckFailed(
            f"Each id has its place, and place is an array; here {case}.",
            expected=f"a NumPy array of whole numbers, {list(ids.shape)}",
            received=told,
            next_step=ORDER,
        )
    outside = (place < 0) | (place >= len(sent))
    wrong = outside if outside.any() else sent[np.where(outside, 0, place)] != ids if len(ids) else outside
    if wrong.any():
        n = int(np.argmax(wrong))
        raise CheckFailed(
            f"The row of an id lies at its place, when the owners' rows lie one after the other; here {case}.",
            expected=int(np.flatnonzero(sent == ids[n])[0]),
            received=int(place[n]),
            index=f"ids[{n}], which is {ids[n]}",
            next_step=ORDER,
        )


def _by_hash(rng: np.random.Generator) -> Owner:
    salt = rng.integers(1 << 60)

    def by_hash(keys: np.ndarray, workers: int) -> np.ndarray:
        return (mix(keys.view(np.uint64) + np.uint64(salt)) % np.uint64(workers)).astype(np.int64)

    return by_hash


def _batches(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, int, Owner]]:
    """The cases: (description, ids, workers, owner)."""
    some, by_hash = rng.integers(10, 99, 5), _by_hash(rng)

    def by_rest(keys: np.ndarray, workers: int) -> np.ndarray:
        return keys % workers

    def last(keys: np.ndarray, workers: int) -> np.ndarray:
        return np.full(len(keys), workers - 1)

    yield "one worker", np.append(some, some[:2]), 1, by_rest
    yield "distinct ids, two workers", rng.permutation(20).astype(np.int64), 2, by_rest
    yield "ids that come again, two workers", np.concatenate([some, some[::-1], some[:1]]), 2, by_rest
    again = np.concatenate([some, some[::-1]])
    yield "three workers", again, 3, by_rest
    yield "the same ids, and another rule for owners", again, 3, by_hash
    yield "the same ids, and one owner of all", again, 3, last
    yield "no ids", np.zeros(0, np.int64), 3, by_hash
    yield "one id", some[:1], 4, by_hash
    yield "one id that comes often", np.full(9, some[0]), 2, by_hash
    yield "an owner of all", np.concatenate([some, some]), 4, last
    yield "more workers than ids", some[:2], 16, by_hash
    ends = np.array([-1, 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min, -1, 2**53 + 1, 2**53], np.int64)
    yield "ids at both ends of int64", ends, 2, by_hash
    yield LINEAR, _twice(rng), 2, by_hash
    for _ in range(10):
        ids, workers = rng.integers(-50, 50, rng.integers(1, 200)), int(rng.integers(1, 9))
        yield "ids by chance", ids, workers, by_hash if rng.integers(2) else by_rest


def _large_batches(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, int, Owner]]:
    yield "a worker's part of a batch", _popular(rng, MANY), 8, _by_hash(rng)
    yield "40,000 distinct keys and 17 workers", rng.permutation(DISTINCT_KEYS).astype(np.int64), 17, _by_hash(rng)


def _twice(rng: np.random.Generator) -> np.ndarray:
    """`FEW` ids, of which each comes twice."""
    return rng.permutation(np.tile(rng.integers(0, 1 << 60, FEW // 2), 2))


def _popular(rng: np.random.Generator, count: int) -> np.ndarray:
    """Draws ids of which a few are frequent and many are rare."""
    return np.exp(rng.uniform(0, 12, count)).astype(np.int64) * 1_000_003


def summed(keys: np.ndarray, gradients: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """The definition, in float64: the distinct keys, the sums of their gradients, and those of the absolute values."""
    right, place = np.unique(keys, return_inverse=True)
    sums, sizes = np.zeros((2, len(right), gradients.shape[1]))
    np.add.at(sums, place, gradients.astype(np.float64))
    np.add.at(sizes, place, np.abs(gradients.astype(np.float64)))
    return right, (sums, sizes)


def same_sums(sums, expected: tuple[np.ndarray, np.ndarray], case: str, question: Sequence) -> None:
    """The sums, and each row within the rounding of its own gradients, whose absolute values add up to its size; a huge row
    elsewhere does not count.
    """
    right, sizes = expected
    Close(SUM)(sums, right, case, question)
    wrong = np.argwhere(~(np.abs(sums - right) <= 1e-5 * sizes))
    if len(wrong):
        row, column = wrong[0]
        raise CheckFailed(
            f"A row's sum is made of its own gradients alone; here {case}.",
            expected=np.float32(right[row, column]),
            received=sums[row, column],
            index=f"sums[{row}, {column}], of key {np.unique(question[0])[row]}",
            next_step=SUM,
        )


def _drawn(rng: np.random.Generator, keys: Sequence[int], dim: int = 4, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """The keys, and a random gradient of each."""
    return np.asarray(keys, np.int64), (scale * rng.normal(size=(len(keys), dim))).astype(np.float32)


def _gradients(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """The cases: (description, keys, gradients)."""
    drawn = functools.partial(_drawn, rng)
    some = rng.choice(1_000, 6, replace=False)
    yield "one key", *drawn(some[:1])
    yield "no keys", *drawn(some[:0])
    yield "distinct keys, not sorted", *drawn(some)
    yield "a key that two workers asked for", *drawn([*some[:3], *some[1:2]])
    yield "a key of all workers", *drawn([some[0]] * 8, 3)
    yield "a key that comes 1,000 times", *drawn(rng.permutation([*some[:1]] * 1_000 + [*some]), 3)
    yield "keys of one number each", *drawn(np.tile(some, 3), 1)
    yield "keys at both ends of int64", *drawn([-1, 2**63 - 1, -(2**63), -1, 2**53, 2**53 + 1], 2)
    keys, gradients = drawn(np.repeat(some, 2), 3)
    gradients[1::2] = -gradients[::2]
    yield "gradients whose sum is 0", keys, gradients
    yield "tiny gradients", *drawn(np.tile(some, 4), 4, 1e-20)
    keys, gradients = drawn(np.tile(some, 2), 1)
    rank = np.searchsorted(np.sort(some), keys)  # huge and tiny in turn
    gradients *= np.where(rank % 2, 1e-5, 1e3).astype(np.float32)[:, None]
    yield "a huge and a tiny gradient under different keys", keys, gradients
    yield LINEAR, *drawn(_twice(rng))
    for _ in range(10):
        yield "keys by chance", *drawn(rng.integers(-20, 20, rng.integers(1, 100)), int(rng.integers(1, 9)))


def in_few_lines(of: str, most: Callable[..., int], next_step: str) -> Callable[[Callable], Callable]:
    """The answer with a limit of lines, `most(*question)`, and with arrays that Python may not read one by one."""

    def ask(answer: Callable) -> Callable:
        def asked(*question):
            counted = within(most(*question), answer, rule=f"no Python loop over {of}", next_step=next_step)
            return counted(*(each.view(WholeArray) if isinstance(each, np.ndarray) else each for each in question))

        return asked

    return ask


def linear(on: Callable[[np.random.Generator], tuple], next_step: str) -> Peak:
    """Refuses an array with an element for each pair of a distinct key and one of the n ids."""
    return Peak(
        "no array of [distinct keys, n]. For 40,000 keys it would take gigabytes",
        LINEAR,
        most=BYTES * FEW,
        on=on,
        next_step=f"{next_step}; it sorts, and compares no pairs",
    )


CHECKS = {
    1: Exercise(
        asks="ask(ids, workers, owner): int64 [n], W, (keys, W) -> owners -> W arrays of keys int64, each id's place in them [n]",
        cases=_batches,
        reference=lambda ids, workers, owner: np.unique(ids),
        ask=in_few_lines(
            "ids or keys", lambda ids, workers, owner: LINES + 20 * workers, f"{DISTINCT}; a loop over the workers is fine"
        ),
        compare=right_keys_and_places,
        limits=[
            linear(lambda rng: (_twice(rng), 2, _by_hash(rng)), DISTINCT),
            Stated(f"at most {LINES} lines that Python runs in your cell, and 20 more per worker"),
        ],
        afterwards=_large_batches,
        run_it=DISTINCT,
    ),
    2: Exercise(
        asks="merge(keys, gradients): int64 [n], float32 [n, D] -> distinct keys int64 [u], rising, their sums float32 [u, D]",
        cases=_gradients,
        reference=summed,
        ask=in_few_lines("the keys", lambda keys, gradients: LINES, SUM),
        compare={
            "distinct": Close("each key is there once, rising: np.unique(keys, return_inverse=True) sorts them", dtype=np.int64),
            "sums": same_sums,
        },
        limits=[
            linear(lambda rng: _drawn(rng, _twice(rng)), SUM),
            Stated(f"at most {LINES} lines that Python runs in your cell"),
        ],
        afterwards=lambda rng: [("what comes to an owner in a step", *_drawn(rng, _popular(rng, MANY), 16))],
        run_it=SUM,
    ),
}

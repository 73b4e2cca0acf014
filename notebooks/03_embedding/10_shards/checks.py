"""Checks of 03_embedding/10_shards: (1) the keys that a worker requests from the owners, (2) merged gradients of equal keys;
no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from ctrlab.lessons.topics.shards.line_budget import within
from ctrlab.lessons.topics.shards.whole_arrays import WholeArray

from ctrlab.data.splitmix import mix
from ctrlab.lessons.check import CheckFailed, call, parts, require_close
from ctrlab.lessons.interpreter import peak_of

DISTINCT = "np.unique(ids, return_inverse=True) gives the distinct keys, and for each id the place of its key among them"
ORDER = "the keys of owner 0 come first, then those of owner 1; place counts along them: np.concatenate(keys)[place] is ids"
SUM = "find each key's place among the distinct ones; np.add.at adds each row there, where `+=` keeps one of equal places"
MANY = 20_000
DISTINCT_KEYS = 40_000
"""The number of distinct keys, too large for int16."""
BYTES = 600
"""The most bytes that a careful answer holds at once, per id or key, with rows of 4 numbers."""
LINES = 60
"""The most lines that a careful answer runs, besides some per worker."""

LINEAR = "4,000 ids of 2,000 distinct keys"
"""The case whose memory is counted, before the large ones."""

Owner = Callable[[np.ndarray, int], np.ndarray]


def check_ask(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `ask(ids, workers, owner)` -> (keys of each owner, each id's place among them)."""
    for case, ids, workers, owner in _batches(rng):
        counted = within(
            LINES + 20 * workers,
            answer,
            rule=f"no Python loop over ids or keys; here {case}",
            next_step=f"{DISTINCT}; a loop over the workers is fine",
        )
        found = call(counted, ids.view(WholeArray), workers, owner, case=case, next_step=DISTINCT)
        keys, place = parts(found, "keys, place", case=case)
        keys = _require_parts(keys, workers, case)
        where = f"{len(ids)} ids, {workers} workers"
        _require_owners(keys, workers, owner, case)
        _require_once(keys, ids, case, where)
        _require_places(keys, place, ids, case)
        if case == LINEAR:
            _require_linear(answer, ids, workers, owner, next_step=DISTINCT)


def _require_linear(answer: Callable, keys: np.ndarray, *others, next_step: str) -> None:
    """Refuses an array with an element for each pair of a distinct key and one of the n ids."""
    most, held = BYTES * len(keys), peak_of(answer, keys, *others)
    if held > most:
        raise CheckFailed(
            "Budget: no array of [distinct keys, n]. For 40,000 keys it would take gigabytes.",
            expected=f"at most {most:,} bytes at once for {len(keys):,} ids: {BYTES} per id",
            received=f"{held:,} bytes",
            next_step=f"{next_step}; it sorts, and compares no pairs",
        )


def _require_parts(keys: object, workers: int, case: str) -> list[np.ndarray]:
    good = isinstance(keys, list | tuple) and len(keys) == workers
    if not good:
        raise CheckFailed(
            f"There is one array of keys per worker, also where it is empty; here {case}.",
            expected=f"a list of {workers} arrays",
            received=f"{len(keys)} of them" if isinstance(keys, list | tuple) else type(keys).__name__,
            next_step="[keys[owners == w] for w in range(workers)] has one for each",
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


def _require_once(keys: list[np.ndarray], ids: np.ndarray, case: str, where: str) -> None:
    sent, needed = np.concatenate(keys), np.unique(ids)
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


def _batches(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, int, Owner]]:
    """The cases: (description, ids, workers, owner)."""
    some, salt = rng.integers(10, 99, 5), rng.integers(1 << 60)

    def by_hash(keys: np.ndarray, workers: int) -> np.ndarray:
        return (mix(keys.view(np.uint64) + np.uint64(salt)) % np.uint64(workers)).astype(np.int64)

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
    yield LINEAR, rng.permutation(np.tile(rng.integers(0, 1 << 60, 2_000), 2)), 2, by_hash
    yield "a worker's part of a batch", _popular(rng, MANY), 8, by_hash
    yield "40,000 distinct keys and 17 workers", rng.permutation(DISTINCT_KEYS).astype(np.int64), 17, by_hash
    for _ in range(10):
        ids, workers = rng.integers(-50, 50, rng.integers(1, 200)), int(rng.integers(1, 9))
        yield "ids by chance", ids, workers, by_hash if rng.integers(2) else by_rest


def _popular(rng: np.random.Generator, count: int) -> np.ndarray:
    """Draws ids of which a few are frequent and many are rare."""
    return np.exp(rng.uniform(0, 12, count)).astype(np.int64) * 1_000_003


def check_merge(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 2: `merge(keys, gradients)` -> (the distinct keys, rising; the sum of each one's gradients)."""
    for case, keys, gradients in _gradients(rng):
        counted = within(LINES, answer, rule=f"no Python loop over the keys; here {case}", next_step=SUM)
        found = call(counted, keys.view(WholeArray), gradients.view(WholeArray), case=case, next_step=SUM)
        distinct, sums = parts(found, "distinct, sums", case=case)
        right, place = np.unique(keys, return_inverse=True)
        expected, size = np.zeros((2, len(right), gradients.shape[1]))
        np.add.at(expected, place, gradients.astype(np.float64))
        np.add.at(size, place, np.abs(gradients.astype(np.float64)))
        _require_distinct(distinct, right, case)
        require_close(sums, expected.astype(np.float32), case=case, next_step=SUM)
        _require_rows(sums, expected, size, right, case)
        if case == LINEAR:
            _require_linear(answer, keys, gradients, next_step=SUM)


def _require_rows(sums: np.ndarray, expected: np.ndarray, size: np.ndarray, keys: np.ndarray, case: str) -> None:
    """Requires each row to be right within the rounding of its own gradients, whose absolute values add up to `size`; a huge
    row elsewhere does not count.
    """
    wrong = np.argwhere(~(np.abs(sums - expected) <= 1e-5 * size))
    if len(wrong):
        row, column = wrong[0]
        raise CheckFailed(
            f"A row's sum is made of its own gradients alone; here {case}.",
            expected=np.float32(expected[row, column]),
            received=sums[row, column],
            index=f"sums[{row}, {column}], of key {keys[row]}",
            next_step=SUM,
        )


def _require_distinct(distinct: object, right: np.ndarray, case: str) -> None:
    same = isinstance(distinct, np.ndarray) and distinct.dtype == np.int64 and np.array_equal(distinct, right)
    if not same:
        told = np.array2string(distinct, threshold=6) if isinstance(distinct, np.ndarray) else type(distinct).__name__
        kind = f" {distinct.dtype}" if isinstance(distinct, np.ndarray) else ""
        raise CheckFailed(
            f"Each key is there once, rising, as int64; here {case}.",
            expected=np.array2string(right, threshold=6),
            received=f"{told}{kind}",
            next_step="np.unique(keys, return_inverse=True) sorts the distinct keys",
        )


def _gradients(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """The cases: (description, keys, gradients)."""

    def drawn(keys: np.ndarray, dim: int = 4, scale: float = 1.0):
        return np.asarray(keys, np.int64), (scale * rng.normal(size=(len(keys), dim))).astype(np.float32)

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
    yield LINEAR, *drawn(rng.permutation(np.tile(rng.integers(0, 1 << 60, 2_000), 2)))
    yield "what comes to an owner in a step", *drawn(_popular(rng, MANY), 16)
    for _ in range(10):
        yield "keys by chance", *drawn(rng.integers(-20, 20, rng.integers(1, 100)), int(rng.integers(1, 9)))


CHECKS = {1: check_ask, 2: check_merge}

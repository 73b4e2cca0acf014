"""Checks of 03_embedding/02_embedding_variable: (1) a hash table's lookup and insert, (2) initial values from seed and key."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ctrlab.embedding.initial_values import hash_keys, initial_values
from ctrlab.embedding.options import Initializer
from ctrlab.lessons.check import CheckFailed, call, require_close
from ctrlab.lessons.exercise import Close, Exercise
from ctrlab.lessons.limits import NoLoop, stated

ENDS = (-1, 0, np.iinfo(np.int64).min, np.iinfo(np.int64).max)
FREE = -1
READS = 3  # of a place that a search passes: more means that it does not stop where it must
MOST_STEPS = 100  # of the interpreter, lines and calls
MANY = 3_000
FILLED = "a table that was filled before"


def find_or_make(keys: np.ndarray, homes: np.ndarray, table, refs, made: int) -> np.ndarray:
    """The definition: the row of each key, searched from its home; a missing key takes the first free place."""
    rows = np.empty(len(keys), np.int64)
    for i, (key, place) in enumerate(zip(keys.tolist(), homes.tolist())):
        while refs[place] != FREE and table[place] != key:
            place = (place + 1) % len(table)
        if refs[place] == FREE:
            table[place], refs[place] = key, made
            made += 1
        rows[i] = refs[place]
    return rows


class Places:
    """An array that is read and written one place at a time, and counts the reads; an answer that reads all of it is refused."""

    def __init__(self, name: str, values: np.ndarray):
        self.name, self._values, self.reads = name, values, 0
        self.shape, self.size, self.ndim, self.dtype = values.shape, values.size, values.ndim, values.dtype

    def all(self) -> np.ndarray:
        """A copy of all places; it is not counted."""
        return self._values.copy()

    def __len__(self):
        return len(self._values)

    def __getitem__(self, place) -> int:
        self.reads += 1
        return int(self._values[self._place(place)])

    def __setitem__(self, place, value) -> None:
        self._values[self._place(place)] = value

    def _place(self, place) -> int:
        size = len(self._values)
        if not isinstance(place, int | np.integer) or not -size <= place < size:
            raise CheckFailed(
                f"A search looks at one place of `{self.name}` at a time.",
                expected=f"a whole number in [0, {size}), or as in any array one in [-{size}, 0)",
                received=f"place {place}" if isinstance(place, int | np.integer) else f"a {type(place).__name__}",
                next_step="start at the key's home; after the last place comes place 0",
            )
        return int(place)

    def _read_whole(self, *_, **__):
        raise CheckFailed(
            f"Budget: a search reads one place of `{self.name}` at a time.",
            wrong=f"The whole of `{self.name}` was read.",
            expected=f"`{self.name}[place]`, from the key's home on",
            received="all places at once, or one after the other from the first",
            next_step="start at the key's home; after the last place comes place 0",
        )

    __iter__ = __contains__ = __array__ = _read_whole


def tables(rng: np.random.Generator) -> Iterator[tuple[str, int, list[np.ndarray]]]:
    """The cases: (description, places, batches of keys): random ones, then those that break a careless answer."""
    for _ in range(3):
        yield "random keys", 64, [rng.integers(-30, 30, 20) for _ in range(3)]
    big = int(rng.integers(1 << 40, 1 << 60))
    yield "0 and -1, which empty places may hold, too", 16, [np.array([0, -1]), np.array([-1, 0, 7])]
    yield "keys at both ends of int64", 16, [np.array(ENDS), rng.permutation(np.array(ENDS))]
    yield "a key that is new and comes three times in its batch", 16, [np.array([big, 3, big, big]), np.array([3, big])]
    last = np.array([key for key in rng.integers(-(1 << 40), 1 << 40, 400).tolist() if hash_keys(np.array([key]))[0] % 8 == 7])[
        :4
    ]
    yield "keys whose home is the last place", 8, [last, last[::-1].copy()]
    full = rng.integers(-(1 << 60), 1 << 60, 7)
    yield "a table with one free place left", 8, [full, full[::-1].copy()]
    keys = rng.integers(-30, 30, 20)
    yield FILLED, 64, [keys, rng.permutation(np.append(keys, rng.integers(30, 60, 5)))]
    yield "a batch without keys", 8, [np.zeros(0, np.int64), np.array([5])]


@stated(f"at most {READS} times as many reads of `table` and `refs` as a search that stops where it must, and 2 more per key")
def check_table(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `find_or_make(keys, homes, table, refs, made)` -> each key's row; new keys get rows and places."""
    for case, size, batches in tables(rng):
        # What a free place holds means nothing: it was left there by a key that went.
        left = rng.choice([0, -1, *batches[-1][:1].tolist()], size).astype(np.int64)
        mine = Places("table", left.copy()), Places("refs", np.full(size, FREE, np.int64))
        ours = Places("table", left.copy()), Places("refs", np.full(size, FREE, np.int64))
        made = 0
        for b, keys in enumerate(batches):
            keys = keys.astype(np.int64)
            homes = (hash_keys(keys) % np.uint64(size)).astype(np.int64)
            if b == 0 and case == FILLED:
                find_or_make(keys, homes, *mine, made)
                made = int(find_or_make(keys, homes, *ours, made).max()) + 1
                continue
            where = f"{case}, batch {b}"
            before = sum(p.reads for p in mine), sum(p.reads for p in ours)
            received = call(_into(answer, *mine, made), keys, homes, case=where)
            wanted = find_or_make(keys, homes, *ours, made)
            step = "a key is there only where its place is taken; the first new key gets row `made`, the next one made + 1"
            require_close(received, wanted, case=where, next_step=step, rtol=0)
            _require_places(mine, ours, where)
            _require_few_reads(sum(p.reads for p in mine) - before[0], sum(p.reads for p in ours) - before[1], len(keys), where)
            made = max([made, *(wanted + 1).tolist()])


def _into(answer: Callable, table: Places, refs: Places, made: int) -> Callable:
    """`answer` as a function of keys and homes only, because it may change the table, and `call` forbids changes of inputs."""
    return lambda keys, homes: answer(keys, homes, table, refs, made)


def _require_places(mine, ours, case: str) -> None:
    for name, found, wanted in ((m.name, m.all(), o.all()) for m, o in zip(reversed(mine), reversed(ours))):
        if np.array_equal(found, wanted):
            continue
        place = int(np.flatnonzero(found != wanted)[0])
        raise CheckFailed(
            f"A new key takes the first free place from its home on, and no other place changes; here {case}.",
            expected=f"{name}[{place}] = {wanted[place]}",
            received=f"{name}[{place}] = {found[place]}",
            next_step="what changes in `table` and in `refs` when a key is new, and at which place?",
        )


def _require_few_reads(reads: int, ours: int, keys: int, case: str) -> None:
    most = READS * ours + 2 * keys
    if reads > most:
        rule = f"Budget: a search ends where the key is, or at the first free place; here {case}."
        raise CheckFailed(
            rule,
            expected=f"at most {most} reads",
            received=f"{reads} reads",
            next_step="when does a search know that a key is new?",
        )


def uniform(keys: np.ndarray, seed: int, limit: float, dim: int) -> np.ndarray:
    """The definition: the engine's, in NumPy."""
    return initial_values(Initializer("uniform", -limit, limit, seed), keys, dim)


def questions(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, int, float, int]]:
    """The cases: (description, keys int64 [n], seed, limit, D)."""
    for _ in range(2):
        yield "random keys", rng.integers(-(1 << 62), 1 << 62, 9), int(rng.integers(1 << 40)), 0.1, int(rng.integers(2, 20))
    keys = rng.integers(-100, 100, 6)
    yield "another seed", keys, int(rng.integers(1 << 40)), 0.25, 4
    yield "the same keys in another order", rng.permutation(keys), 7, 0.25, 4
    yield "a key twice", np.array([keys[0], 5, keys[0]]), 7, 0.5, 3
    yield "keys at both ends of int64", np.array(ENDS), 7, 0.125, 2
    yield "the first seed", keys, 0, 0.3, 3
    yield "the last seed", keys, (1 << 63) - 1, 0.5, 3
    yield "rows of one number", keys, 3, 2.0, 1
    yield "no keys", keys[:0], 3, 0.5, 4


CHECKS = {
    1: check_table,
    2: Exercise(
        asks="initial(keys, seed, limit, dim): int64 [n], int, float, D -> float32 [n, D], bit by bit what the engine makes",
        cases=questions,
        reference=uniform,
        compare=Close(
            "work one number out by hand, in uint64 up to the 24 bits that are left, which float32 holds without rounding", rtol=0
        ),
        limits=[NoLoop("keys", many=MANY, most=MOST_STEPS, on=lambda rng: (rng.integers(0, 1 << 40, MANY), 1, 0.5, 4))],
    ),
}

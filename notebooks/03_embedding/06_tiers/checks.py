"""Checks of 03_embedding/06_tiers: (1) hits of a limited memory, by LRU and LFU, (2) the writes of leveled compaction."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ctrlab.lessons.exercise import Exercise, Number

EXTREMES = np.array([-(2**63), -1, 0, 2**63 - 1])


def hits(ids: np.ndarray, rows: int, strategy: str) -> int:
    """The definition, id by id: the number of ids whose row is in memory. A missing row is loaded, and another one is removed
    if necessary.
    """
    counts: dict[int, int] = {}
    last: dict[int, int] = {}
    memory: set[int] = set()
    found = 0
    for now, key in enumerate(ids.tolist()):
        counts[key] = counts.get(key, 0) + 1
        last[key] = now
        found += key in memory
        if key not in memory and len(memory) == rows:
            memory.remove(min(memory, key=lambda k: last[k] if strategy == "lru" else (counts[k], last[k])))
        memory.add(key)
    return found


def zipf(rng: np.random.Generator, ids: int, count: int, exponent: float = 1.05) -> np.ndarray:
    """`count` ids in [0, ids); the probability of id i is proportional to 1 / (i + 1) ** exponent."""
    weights = 1 / np.arange(1, ids + 1) ** exponent
    return rng.choice(ids, count, p=weights / weights.sum())


def streams(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, int]]:
    """The cases: (description, ids int64 [n], rows of the memory)."""
    for _ in range(3):
        yield "Zipf ids", zipf(rng, 60, 400), int(rng.integers(3, 20))
    drifting = np.concatenate([zipf(rng, 30, 150), 100 + zipf(rng, 30, 150)])
    yield "ids that drift", drifting, 8
    scan = np.tile(np.arange(int(rng.integers(6, 12))), 6)
    yield "a scan that is one longer than the memory", scan, int(scan.max())
    yield "an id that was often and comes back", np.array([7, 7, 7, 1, 2, 3, 7, 1, 2, 3, 7]), 2
    yield "any int64 as id", rng.choice(EXTREMES, 40), 2
    yield "a memory of one row", zipf(rng, 5, 60), 1
    yield "more memory than ids", zipf(rng, 5, 60), 100
    yield "no ids", np.zeros(0, np.int64), 4


def leveled(keys: np.ndarray, memtable: int, fanout: int) -> int:
    """The definition: the number of records that are written to disk when `keys` are put one by one."""
    buffer: set[int] = set()
    levels: list[set[int]] = []
    written = 0
    for key in keys.tolist():
        buffer.add(key)
        if len(buffer) < memtable:
            continue
        moving, place, buffer = buffer, 0, set()
        while moving:
            if place == len(levels):
                levels.append(set())
            levels[place] |= moving
            written += len(levels[place])
            moving = set()
            if len(levels[place]) > memtable * fanout ** (place + 1):
                moving, levels[place] = levels[place], set()
                place += 1
    return written


def puts(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, int, int]]:
    """The cases: (description, keys int64 [n], memtable, fanout)."""
    for _ in range(4):
        memtable, fanout = int(rng.integers(2, 12)), int(rng.integers(2, 5))
        yield "random keys", rng.integers(0, 300, int(rng.integers(200, 900))), memtable, fanout
    yield "keys that all differ", rng.permutation(600), 5, 3
    yield "one key, again and again", np.full(50, -1), 1, 2
    yield "one key and a memory of two", np.full(50, 2**63 - 1), 2, 2
    yield "fewer keys than the memory holds", np.arange(4), 5, 2
    yield "just as many as the memory holds", np.arange(5), 5, 2
    yield "no keys", np.zeros(0, np.int64), 3, 2


CHECKS = {
    1: Exercise(
        asks='hits(ids, rows, strategy): int64 [n], int, "lru" or "lfu" -> int',
        cases=lambda rng: ((case, *question, strategy) for case, *question in streams(rng) for strategy in ("lru", "lfu")),
        reference=hits,
        compare=Number(
            "The count must be right to the last one",
            "lfu: who came least often, in all its life, goes, of equals the longest unused; the new one stays",
            whole=True,
            shown=lambda ids, rows, strategy: f"{strategy}, {rows} rows",
        ),
    ),
    2: Exercise(
        asks="leveled(keys, memtable, fanout): int64 [n], int, int -> int",
        cases=puts,
        reference=leveled,
        compare=Number(
            "The count must be right to the last one",
            "a merge writes all of the level it goes into; a level that is too full then moves down as a whole",
            whole=True,
            shown=lambda keys, memtable, fanout: f"memtable {memtable}, fanout {fanout}",
        ),
    ),
}

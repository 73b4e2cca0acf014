"""The checks of the lesson on tiers against right answers and every kind of wrong one."""

from collections import OrderedDict

import numpy as np
import pytest
from ctrlab.lessons.topics.tiers import checks
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check

LESSON = "03_embedding/06_tiers"
hits = solved(LESSON, 1)


def always_lru(ids, rows, strategy):
    return hits(ids, rows, "lru")


def always_lfu(ids, rows, strategy):
    return hits(ids, rows, "lfu")


def a_row_more(ids, rows, strategy):
    return hits(ids, rows + 1, strategy)


def rate(ids, rows, strategy):
    return hits(ids, rows, strategy) / max(len(ids), 1)


def first_in_first_out(ids, rows, strategy):
    if strategy == "lfu":
        return hits(ids, rows, strategy)
    memory, found = OrderedDict(), 0
    for key in ids.tolist():
        found += key in memory
        if key not in memory and len(memory) >= rows:
            memory.popitem(last=False)
        memory.setdefault(key)
    return found


def forgets_counts(ids, rows, strategy):
    if strategy == "lru":
        return hits(ids, rows, strategy)
    memory, found = OrderedDict(), 0
    for key in ids.tolist():
        found += key in memory
        count = memory.pop(key, 0)
        if not count and len(memory) >= rows:
            memory.pop(min(memory, key=memory.get))
        memory[key] = count + 1
    return found


def lfu(ids, rows, least, may_go=lambda memory, key: memory):
    """LFU with another rule for the removed key: the smallest of `may_go` by `least(key, counts, last)`."""
    counts, last, memory, found = {}, {}, set(), 0
    for now, key in enumerate(ids.tolist()):
        counts[key], last[key] = counts.get(key, 0) + 1, now
        found += key in memory
        if key in memory or len(memory) < rows:
            memory.add(key)
            continue
        memory = (memory | {key}) - {min(may_go(memory, key), key=lambda k: least(k, counts, last))}
    return found


def of_equals_the_newest(ids, rows, strategy):
    return lfu(ids, rows, lambda k, n, last: (n[k], -last[k])) if strategy == "lfu" else hits(ids, rows, strategy)


def of_equals_the_least_id(ids, rows, strategy):
    return lfu(ids, rows, lambda k, n, last: (n[k], k)) if strategy == "lfu" else hits(ids, rows, strategy)


def the_new_one_may_go(ids, rows, strategy):
    def both(memory, key):
        return memory | {key}

    return lfu(ids, rows, lambda k, n, last: (n[k], last[k]), both) if strategy == "lfu" else hits(ids, rows, strategy)


def the_best_rows_from_the_first(ids, rows, strategy):
    often = np.sort(np.unique(ids, return_counts=True)[1])[-rows:]
    return int(often.sum() - len(often)) if strategy == "lfu" else hits(ids, rows, strategy)


def as_a_float(ids, rows, strategy):
    return float(hits(ids, rows, strategy))


def leveled(
    keys, memtable, fanout, *, whole=True, below=True, distinct=True, leftover=False, limit=lambda m, f, p: m * f ** (p + 1)
):
    buffer, levels, written = [], [], 0

    def put(place, moving):
        nonlocal written
        if place == len(levels):
            levels.append(set())
        levels[place] |= moving
        written += len(levels[place]) if whole else len(moving)
        if below and len(levels[place]) > limit(memtable, fanout, place):
            moving, levels[place] = levels[place], set()
            put(place + 1, moving)

    for key in keys.tolist():
        buffer.append(key)
        if (len(set(buffer)) if distinct else len(buffer)) == memtable:
            put(0, set(buffer))
            buffer.clear()
    return written + (len(set(buffer)) if leftover else 0)


def only_what_moves(keys, memtable, fanout):
    return leveled(keys, memtable, fanout, whole=False)


def one_level(keys, memtable, fanout):
    return leveled(keys, memtable, fanout, below=False)


def not_distinct(keys, memtable, fanout):
    return leveled(keys, memtable, fanout, distinct=False)


def what_is_in_memory(keys, memtable, fanout):
    return leveled(keys, memtable, fanout, leftover=True)


def wider(keys, memtable, fanout):
    return leveled(keys, memtable, fanout + 1)


def amplification(keys, memtable, fanout):
    return leveled(keys, memtable, fanout) / max(len(keys), 1)


def a_level_too_early(keys, memtable, fanout):
    return leveled(keys, memtable, fanout, limit=lambda m, f, p: m * f ** (p + 1) - 1)


def levels_of_one_size(keys, memtable, fanout):
    return leveled(keys, memtable, fanout, limit=lambda m, f, p: m * f)


def levels_one_size_up(keys, memtable, fanout):
    return leveled(keys, memtable, fanout, limit=lambda m, f, p: m * f ** (p + 2))


def no_deeper_than_two(keys, memtable, fanout):
    return leveled(keys, memtable, fanout, limit=lambda m, f, p: m * f ** (p + 1) if p < 1 else 1 << 60)


def sorts_the_keys(keys, memtable, fanout):
    written = leveled(keys, memtable, fanout)
    keys.sort()
    return written


WRONG_HITS = [always_lru, always_lfu, a_row_more, rate, first_in_first_out, forgets_counts]
WRONG_WRITES = [only_what_moves, one_level, not_distinct, what_is_in_memory, wider, amplification]
WRONG_HITS += [of_equals_the_newest, of_equals_the_least_id, the_new_one_may_go, the_best_rows_from_the_first, as_a_float]
WRONG_WRITES += [a_level_too_early, levels_of_one_size, levels_one_size_up, no_deeper_than_two, sorts_the_keys]
test_right, test_wrong = judge(LESSON, {1: (hits, WRONG_HITS), 2: (solved(LESSON, 2), WRONG_WRITES)})


@pytest.mark.parametrize(("exercise", "answer"), [(2, leveled)])
def test_what_wrong_answers_alter_is_right(exercise, answer):
    check.run(LESSON, exercise, answer)


def test_zipf_ids_are_as_often_as_said():
    ids = checks.zipf(np.random.default_rng(1), 100, 20_000)
    counts = np.bincount(ids, minlength=100)
    assert counts[0] / counts[9] == pytest.approx(10**1.05, rel=0.2)

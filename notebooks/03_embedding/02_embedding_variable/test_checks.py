"""The checks of the lesson on the embedding variable against right answers and every kind of wrong one."""

import numpy as np
import pytest
from ctrlab.lessons.topics.embedding_variable import checks
from solved import solved
from wrong_answers import judge

from ctrlab.embedding import EmbeddingVariable, Initializer, Options
from ctrlab.lessons import check

LESSON = "03_embedding/02_embedding_variable"
G = np.uint64(0x9E3779B97F4A7C15)


def search(keys, homes, table, refs, made, *, free=lambda table, refs, p: refs[p] == -1, step=lambda p, m: (p + 1) % m):
    rows = []
    for key, p in zip(keys.tolist(), homes.tolist()):
        while not free(table, refs, p) and table[p] != key:
            p = step(p, len(table))
        if free(table, refs, p):
            table[p], refs[p] = key, made
            made += 1
        rows.append(refs[p])
    return np.array(rows, np.int64)


def no_op(keys, homes, table, refs, made):
    return np.zeros(len(keys), np.int64)


def constant(keys, homes, table, refs, made):
    return np.full(len(keys), made)


def key_before_place(keys, homes, table, refs, made):
    """Wrong: takes the content of a free place for a key."""
    rows = []
    for key, p in zip(keys.tolist(), homes.tolist()):
        while table[p] != key and refs[p] != -1:
            p = (p + 1) % len(table)
        if table[p] != key:
            table[p], refs[p] = key, made
            made += 1
        rows.append(refs[p])
    return np.array(rows, np.int64)


def minus_one_is_free(*question):
    return search(*question, free=lambda table, refs, p: table[p] == -1)


def runs_off_the_end(*question):
    return search(*question, step=lambda p, m: p + 1)


def stays_at_the_last(*question):
    keys, homes, table, refs, made = question
    for _ in range(3):
        homes = homes % len(table)
    return search(keys, homes, table, refs, made, step=lambda p, m: max(0, p - 1) if p else m - 1)


def overwrites(keys, homes, table, refs, made):
    rows = []
    for key, p in zip(keys.tolist(), homes.tolist()):
        if refs[p] == -1 or table[p] != key:
            table[p], refs[p] = key, made
            made += 1
        rows.append(refs[p])
    return np.array(rows, np.int64)


def does_not_insert(keys, homes, table, refs, made):
    known = {}
    return np.array([known.setdefault(key, made + len(known)) for key in keys.tolist()], np.int64)


def rows_from_one(keys, homes, table, refs, made):
    return search(keys, homes, table, refs, made + 1)


def a_row_each_time(keys, homes, table, refs, made):
    search(keys, homes, table, refs, made)
    return made + np.arange(len(keys))


def looks_everywhere(keys, homes, table, refs, made):
    for p in range(len(table)):
        for _ in range(20):
            refs[p]
    return search(keys, homes, table, refs, made)


def takes_slices(keys, homes, table, refs, made):
    return np.array([np.flatnonzero(table[:] == key)[0] for key in keys.tolist()], np.int64)


def asks_whether_the_key_is_in(keys, homes, table, refs, made):
    return np.array([key in table for key in keys.tolist()], np.int64)


def copies_all_refs(keys, homes, table, refs, made):
    return search(keys, homes, table, np.asarray(refs), made)


def walks_through_the_table(keys, homes, table, refs, made):
    return np.array([next(p for p, held in enumerate(table) if held == key) for key in keys.tolist()], np.int64)


def low_precision(keys, homes, table, refs, made):
    return search(keys, homes, table, refs, made).astype(np.float32)


def through_float(keys, homes, table, refs, made):
    return search(keys.astype(np.float64).clip(-(2.0**62), 2.0**62).astype(np.int64), homes, table, refs, made)


def changes_its_input(keys, homes, table, refs, made):
    rows = search(keys, homes, table, refs, made)
    keys[:] = 0
    return rows


def a_dictionary_beside_it(keys, homes, table, refs, made, known={}):  # noqa: B006
    """Wrong: finds only keys that it was asked for before, not others in the table."""
    if made == 0:
        known.clear()
    new = np.array([key for key in dict.fromkeys(keys.tolist()) if key not in known], np.int64)
    home_of = dict(zip(keys.tolist(), homes.tolist()))
    for key in new.tolist():
        p = home_of[key]
        while refs[p] != -1:
            p = (p + 1) % len(table)
        table[p], refs[p], known[key] = key, made, made
        made += 1
    return np.array([known[key] for key in keys.tolist()], np.int64)


def tidies_up(keys, homes, table, refs, made):
    rows = search(keys, homes, table, refs, made)
    for p in range(len(table)):
        if refs[p] == -1:
            table[p] = 0
    return rows


def triangular_steps(keys, homes, table, refs, made):
    rows = []
    for key, p in zip(keys.tolist(), homes.tolist()):
        d = 0
        while refs[p] != -1 and table[p] != key:
            d += 1
            p = (p + d) % len(table)
        if refs[p] == -1:
            table[p], refs[p] = key, made
            made += 1
        rows.append(refs[p])
    return np.array(rows, np.int64)


def reads_behind_the_back(keys, homes, table, refs, made):
    return search(keys, homes, table.values, refs.values, made)


def a_list(*question):
    return search(*question).tolist()


TABLES = dict.fromkeys(
    (
        a_dictionary_beside_it,
        tidies_up,
        triangular_steps,
        reads_behind_the_back,
        a_list,
        no_op,
        constant,
        key_before_place,
        minus_one_is_free,
        runs_off_the_end,
        stays_at_the_last,
        overwrites,
        does_not_insert,
        rows_from_one,
        a_row_each_time,
        looks_everywhere,
        takes_slices,
        low_precision,
        through_float,
        changes_its_input,
    )
) | {
    asks_whether_the_key_is_in: "The whole of `table` was read",
    copies_all_refs: "The whole of `refs` was read",
    walks_through_the_table: "The whole of `table` was read",
}


def mix(x):
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def values(keys, seed, limit, dim, *, places=None, shift=40):
    stream = mix(keys.view(np.uint64) + mix(np.array([seed], np.uint64) + G))
    places = np.arange(1, dim + 1, dtype=np.uint64) if places is None else places
    u = (mix(stream[:, None] + places * G) >> np.uint64(shift)) * 2.0 ** (shift - 64)
    return (-limit + float(np.float32(2 * limit)) * u).astype(np.float32)


def from_the_order(keys, seed, limit, dim):
    return np.random.default_rng(seed).uniform(-limit, limit, (len(keys), dim)).astype(np.float32)


def no_seed(keys, seed, limit, dim):
    return values(keys, 7, limit, dim)


def place_from_zero(keys, seed, limit, dim):
    return values(keys, seed, limit, dim, places=np.arange(dim, dtype=np.uint64))


def one_number_a_key(keys, seed, limit, dim):
    return values(keys, seed, limit, dim, places=np.ones(dim, np.uint64))


def few_bits(keys, seed, limit, dim):
    return values(keys, seed, limit, dim, shift=52)


def width_in_double(keys, seed, limit, dim):
    u = (values(keys, seed, 0.5, dim).astype(np.float64)) + 0.5
    return (-limit + 2 * limit * u).astype(np.float32)


def from_zero_to_limit(keys, seed, limit, dim):
    return (values(keys, seed, limit, dim) + np.float32(limit)) / 2


def not_negative(keys, seed, limit, dim):
    return values(np.abs(keys), seed, limit, dim)


def key_by_key(keys, seed, limit, dim):
    rows = [values(keys[i : i + 1], seed, limit, dim) for i in range(len(keys))]
    return np.concatenate([values(keys[:0], seed, limit, dim), *rows])


def of_the_engine(keys, seed, limit, dim):
    initializer = Initializer("uniform", -limit, limit, seed)
    return EmbeddingVariable("rows", dim, Options(initializer)).lookup(keys, True).numpy()


def sum_in_single(keys, seed, limit, dim):
    u = values(keys, seed, 0.5, dim) + np.float32(0.5)
    return np.float32(-limit) + np.float32(2 * limit) * u


def seed_in_32_bits(keys, seed, limit, dim):
    return values(keys, seed & 0xFFFFFFFF, limit, dim)


def same_for_both_signs(keys, seed, limit, dim):
    return np.where(keys[:, None] < 0, -1, 1).astype(np.float32) * values(keys, seed, limit, dim)


VALUES = [
    of_the_engine,
    sum_in_single,
    seed_in_32_bits,
    same_for_both_signs,
    from_the_order,
    no_seed,
    place_from_zero,
    one_number_a_key,
    few_bits,
    width_in_double,
    from_zero_to_limit,
    not_negative,
    key_by_key,
]


def from_behind(keys, homes, table, refs, made):
    """Right: places below 0 wrap, as in any array, and `shape` tells how many there are."""
    return search(keys, homes - table.shape[0], table, refs, made, step=lambda p, m: p + 1)


test_right, test_wrong = judge(LESSON, {1: ((solved(LESSON, 1), from_behind), TABLES), 2: (solved(LESSON, 2), VALUES)})


@pytest.mark.parametrize(("exercise", "answer"), [(1, search), (2, values)])
def test_what_wrong_answers_alter_is_right(exercise, answer):
    check.run(LESSON, exercise, answer)


def test_the_definition_finds_every_key_again():
    rng = np.random.default_rng(0)
    table, refs = np.zeros(256, np.int64), np.full(256, checks.FREE)
    keys = rng.integers(-50, 50, 400)
    homes = (checks.hash_keys(keys) % np.uint64(256)).astype(np.int64)
    rows = checks.find_or_make(keys, homes, table, refs, 0)
    _, first = np.unique(keys, return_index=True)
    assert len(set(rows.tolist())) == len(first) == (refs != checks.FREE).sum()
    np.testing.assert_array_equal(checks.find_or_make(keys, homes, table, refs, 10**6), rows)

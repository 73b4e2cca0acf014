"""The checks of the lesson on collisions against right answers and every kind of wrong one."""

import math

import numpy as np
import pytest
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed

LESSON = "03_embedding/01_collisions"
expected_share, count = solved(LESSON, 1), solved(LESSON, 2)


def no_care_for_small_numbers(ids, buckets):
    return 1 - (1 - 1 / buckets) ** (ids - 1)


def exponential(ids, buckets):
    return -math.expm1(-ids / buckets)


def one_too_many(ids, buckets):
    return -math.expm1(ids * math.log1p(-1 / buckets)) if buckets > 1 else 1.0


def any_pair(ids, buckets):
    """The chance that there is a collision at all: the other birthday question."""
    return -math.expm1(-ids * (ids - 1) / 2 / buckets)


def fullness(ids, buckets):
    return min(1.0, ids / buckets)


def lost_rows(ids, buckets):
    """Wrong: the fraction of ids beyond the first of each bucket."""
    return 1 - buckets / ids * (1 - (1 - 1 / buckets) ** ids)


def single_precision(ids, buckets):
    return float(np.float32(expected_share(ids, buckets)) * np.float32(1.000001))


def as_text(ids, buckets):
    return f"{expected_share(ids, buckets):.0%}"


def as_plain_text(ids, buckets):
    return str(expected_share(ids, buckets))


def rounded_to_float32(ids, buckets):
    return np.float32(expected_share(ids, buckets))


def linear_where_few(ids, buckets):
    return (ids - 1) / buckets if ids / buckets < 1e-3 else expected_share(ids, buckets)


def an_array(ids, buckets):
    return np.array([expected_share(ids, buckets)])


def drawn(ids, buckets):
    """Wrong: a random experiment instead of the expectation."""
    _, row, sharing = np.unique(np.random.default_rng(0).integers(0, buckets, ids), return_inverse=True, return_counts=True)
    return float(np.mean(sharing[row] > 1))


FIRST = [
    no_care_for_small_numbers,
    exponential,
    one_too_many,
    any_pair,
    fullness,
    lost_rows,
    single_precision,
    as_text,
    as_plain_text,
    rounded_to_float32,
    linear_where_few,
    an_array,
    drawn,
]


def repeats_collide(columns, buckets):
    rows = np.concatenate(columns) % buckets
    _, row, sharing = np.unique(rows, return_inverse=True, return_counts=True)
    return (np.mean(sharing[row] > 1) if len(rows) else 0.0), count(columns, buckets)[1]


def column_by_column(columns, buckets):
    found = [count([column], buckets) for column in columns]
    return tuple(np.average(found, axis=0, weights=[len(c) + 1e-9 for c in columns]))


def as_large_as_the_table(columns, buckets):
    ids, often = np.unique(np.concatenate(columns), return_counts=True)
    traffic, sharing = np.zeros(buckets), np.zeros(buckets)
    np.add.at(traffic, ids % buckets, often)
    np.add.at(sharing, ids % buckets, 1)
    row = ids % buckets
    return np.mean(sharing[row] > 1), np.sum(often * (1 - often / traffic[row])) / max(1, np.sum(often))


def not_weighted(columns, buckets):
    ids, often = np.unique(np.concatenate(columns), return_counts=True)
    _, row = np.unique(ids % buckets, return_inverse=True)
    traffic = np.bincount(row, often)
    return count(columns, buckets)[0], (np.mean(1 - often / traffic[row]) if len(ids) else 0.0)


def buckets_that_are_shared(columns, buckets):
    _, sharing = np.unique(np.unique(np.concatenate(columns)) % buckets, return_counts=True)
    return (np.mean(sharing > 1) if len(sharing) else 0.0), count(columns, buckets)[1]


def all_but_the_first(columns, buckets):
    ids = np.unique(np.concatenate(columns))
    return (1 - len(np.unique(ids % buckets)) / len(ids) if len(ids) else 0.0), count(columns, buckets)[1]


def swapped(columns, buckets):
    return count(columns, buckets)[::-1]


def one_number(columns, buckets):
    return count(columns, buckets)[0]


def fails_where_there_is_nothing(columns, buckets):
    if not sum(map(len, columns)):
        raise ZeroDivisionError("no ids")
    return count(columns, buckets)


def sorts_what_it_was_given(columns, buckets):
    found = count(columns, buckets)
    for column in columns:
        column.sort()
    return found


def single(columns, buckets):
    return tuple(float(np.float32(share)) for share in count(columns, buckets))


def texts(columns, buckets):
    return tuple(str(share) for share in count(columns, buckets))


def in_32_bits(columns, buckets):
    return count([column.astype(np.int32) for column in columns], buckets)


def in_floats(columns, buckets):
    return count([column.astype(np.float64) for column in columns], buckets)


SECOND = [
    texts,
    in_32_bits,
    in_floats,
    repeats_collide,
    column_by_column,
    as_large_as_the_table,
    not_weighted,
    buckets_that_are_shared,
    all_but_the_first,
    swapped,
    one_number,
    fails_where_there_is_nothing,
    sorts_what_it_was_given,
    single,
]
test_right, test_wrong = judge(LESSON, {1: (expected_share, FIRST), 2: (count, SECOND)})


def test_the_formula_fails_where_it_is_used_without_care():
    with pytest.raises(CheckFailed) as refused:
        check.run(LESSON, 1, lambda ids, buckets: no_care_for_small_numbers(ids, buckets) if buckets > 1 else float(ids > 1))
    assert "lose its digits" in refused.value.next_step

"""The checks of the lesson on the embedding table against right answers and every kind of wrong one."""

from collections import Counter

import numpy as np
import pytest
from ctrlab.lessons.topics.embedding_table import checks
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed

LESSON = "01_baseline/05_embedding_table"
row_gradients, hot_rows = solved(LESSON, 1), solved(LESSON, 2)


def nothing(*question):
    return None


def as_they_came(ids, gradients):
    return ids.copy(), gradients.copy()


def assigned(ids, gradients):
    """NumPy's trap: `+=` with repeated places keeps one gradient of each id."""
    rows, place = np.unique(ids, return_inverse=True)
    sums = np.zeros((len(rows), gradients.shape[1]), gradients.dtype)
    sums[place] += gradients
    return rows, sums


def averaged(ids, gradients):
    rows, sums = row_gradients(ids, gradients)
    return rows, sums / np.unique(ids, return_counts=True)[1][:, None].astype(np.float32)


def in_order_of_appearance(ids, gradients):
    rows, sums = row_gradients(ids, gradients)
    order = np.argsort(np.unique(ids, return_index=True)[1])
    return rows[order], sums[order]


def neighbours_only(ids, gradients):
    """Adds up equal ids that stand side by side, as if they were sorted."""
    if not len(ids):
        return row_gradients(ids, gradients)
    first = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
    return ids[first], np.add.reduceat(gradients, first, axis=0)


def off_by_one(ids, gradients):
    rows, sums = row_gradients(ids, gradients)
    return rows, np.roll(sums, 1, axis=0)


def without_the_last(ids, gradients):
    return row_gradients(ids[:-1], gradients[:-1])


def without_zero_sums(ids, gradients):
    rows, sums = row_gradients(ids, gradients)
    moved = sums.any(axis=1)
    return rows[moved], sums[moved]


def constant(ids, gradients):
    rows, sums = row_gradients(ids, gradients)
    return rows, np.ones_like(sums)


def in_float64(ids, gradients):
    return row_gradients(ids, gradients.astype(np.float64))


def low_precision(ids, gradients):
    rows, sums = row_gradients(ids, gradients.astype(np.float16))
    return rows, sums.astype(np.float32)


def in_place(ids, gradients):
    """Right, but it sorts its inputs on the way."""
    answer = row_gradients(ids, gradients)
    gradients[:] = gradients[np.argsort(ids)]
    ids.sort()
    return answer


def whole_table(ids, gradients):
    table = np.zeros((ids.max(initial=-1) + 1, gradients.shape[1]), gradients.dtype)
    np.add.at(table, ids, gradients)
    rows = np.unique(ids)
    return rows, table[rows]


def whole_table_if_small(ids, gradients):
    """Passes all small inputs, so its memory alone refuses it."""
    return row_gradients(ids, gradients) if ids.max(initial=0) > 10**9 else whole_table(ids, gradients)


def line_by_line(ids, gradients):
    if ids.max(initial=0) > 10**6:
        return row_gradients(ids, gradients)
    rows, sums = [], []
    for row in range(ids.max(initial=-1) + 1):
        chosen = ids == row
        if chosen.any():
            rows.append(row)
            sums.append(gradients[chosen].sum(0))
    return np.array(rows, np.int64), np.array(sums, np.float32).reshape(-1, gradients.shape[1])


def every_pair(ids, gradients):
    rows = np.unique(ids)
    return rows, (rows[:, None] == ids).astype(np.float32) @ gradients


def by_dictionary(ids, gradients):
    sums = {}
    for i, gradient in zip(ids.tolist(), gradients):
        sums[i] = sums.get(i, 0) + gradient
    rows = sorted(sums)
    return np.array(rows, np.int64), np.array([sums[row] for row in rows], np.float32).reshape(-1, gradients.shape[1])


def ids_as_floats(ids, gradients):
    rows, sums = row_gradients(ids.astype(np.float32), gradients)
    return rows.astype(np.int64), sums


def differences_of_sums(ids, gradients):
    order = np.argsort(ids, kind="stable")
    rows, first = np.unique(ids[order], return_index=True)
    sums = np.append(np.zeros((1, gradients.shape[1]), np.float32), np.cumsum(gradients[order], 0, np.float32), 0)
    return rows, np.diff(sums[np.append(first, len(ids))], axis=0)


def sums_alone(ids, gradients):
    return row_gradients(ids, gradients)[1]


def in_floats(ids, percent):
    often = np.sort(np.unique(ids, return_counts=True)[1])[::-1]
    return int(np.argmax(np.append(0, np.cumsum(often)) >= percent / 100 * len(ids)))


def rounded(ids, percent):
    often = np.sort(np.unique(ids, return_counts=True)[1])[::-1]
    return int(np.searchsorted(np.append(0, np.cumsum(often)), round(percent * len(ids) / 100)))


def always_one(ids, percent):
    return 1


def share_of_different_ids(ids, percent):
    return int(np.ceil(len(np.unique(ids)) * percent / 100))


def smallest_ids_first(ids, percent):
    served = np.append(0, np.cumsum(np.unique(ids, return_counts=True)[1]))
    return int(np.searchsorted(served * 100, percent * len(ids)))


def rarest_first(ids, percent):
    served = np.append(0, np.cumsum(np.sort(np.unique(ids, return_counts=True)[1])))
    return int(np.searchsorted(served * 100, percent * len(ids)))


def one_too_few(ids, percent):
    return max(0, hot_rows(ids, percent) - 1)


def one_too_many_on_a_tie(ids, percent):
    often = np.sort(np.unique(ids, return_counts=True)[1])[::-1]
    served = np.append(0, np.cumsum(often))
    return int(np.searchsorted(served * 100, percent * len(ids), side="right"))


def one_at_least(ids, percent):
    return max(1, hot_rows(ids, percent))


def right_if_distinct(ids, percent):
    return int(np.ceil(len(ids) * percent / 100))


def a_float(ids, percent):
    return float(hot_rows(ids, percent))


def sorts_its_input(ids, percent):
    answer = hot_rows(ids, percent)
    ids.sort()
    return answer


def table_of_counts(ids, percent):
    often = np.sort(np.bincount(ids))[::-1]
    return int(np.searchsorted(np.append(0, np.cumsum(often)) * 100, percent * len(ids)))


test_right_answers_pass, test_wrong_answers_are_refused = judge(
    LESSON,
    {
        1: (
            row_gradients,
            dict.fromkeys(
                (
                    nothing,
                    as_they_came,
                    assigned,
                    averaged,
                    in_order_of_appearance,
                    neighbours_only,
                    off_by_one,
                    without_the_last,
                    without_zero_sums,
                    constant,
                    in_float64,
                    low_precision,
                    whole_table,
                    sums_alone,
                    ids_as_floats,
                    differences_of_sums,
                )
            )
            | {
                in_place: "leaves its inputs",
                whole_table_if_small: "Budget: nothing is made",
                every_pair: "Budget: nothing is made",
            }
            | dict.fromkeys((line_by_line, by_dictionary), "Budget: no loop"),
        ),
        2: (
            hot_rows,
            dict.fromkeys(
                (
                    nothing,
                    always_one,
                    share_of_different_ids,
                    smallest_ids_first,
                    rarest_first,
                    one_too_few,
                    one_too_many_on_a_tie,
                    one_at_least,
                    right_if_distinct,
                    in_floats,
                    rounded,
                    a_float,
                    table_of_counts,
                )
            )
            | {sorts_its_input: "leaves its inputs", checks.hot_rows: "Budget: no loop"},
        ),
    },
)


def by_sorting(ids, gradients):
    if not len(ids):
        return ids.copy(), gradients.copy()
    order = np.argsort(ids, kind="stable")
    rows, first = np.unique(ids[order], return_index=True)
    return rows, np.add.reduceat(gradients[order], first, axis=0)


def one_column_at_a_time(ids, gradients):
    rows, place = np.unique(ids, return_inverse=True)
    columns = [np.bincount(place, column, len(rows)) for column in gradients.T]
    return rows, np.stack(columns, axis=1).astype(np.float32)


def by_counter(ids, percent):
    often = sorted(Counter(ids.tolist()).values(), reverse=True)
    return int(np.searchsorted(np.append(0, np.cumsum(often)) * 100, percent * len(ids)))


@pytest.mark.parametrize("exercise, answer", [(1, by_sorting), (1, one_column_at_a_time), (2, by_counter)])
@pytest.mark.parametrize("seed", range(4))
def test_other_right_answers_pass(exercise, answer, seed):
    check.run(LESSON, exercise, answer, seed)


def test_a_refusal_says_where():
    with pytest.raises(CheckFailed, match="`sums`") as refused:
        check.run(LESSON, 1, assigned, 0)
    assert "row" in str(refused.value) and "sum of three gradients" in refused.value.next_step


@pytest.mark.parametrize("seed", range(3))
def test_the_definition_is_a_sum_over_equal_ids(seed):
    for _, ids, gradients in checks.reads(np.random.default_rng(seed)):
        rows, sums = checks.row_gradients(ids, gradients)
        assert sorted(set(ids.tolist())) == rows.tolist()
        for row, received in zip(rows, sums):
            assert np.allclose(received, gradients[ids == row].astype(np.float64).sum(0), rtol=1e-5, atol=1e-6)

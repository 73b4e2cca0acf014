"""The checks of the lesson on analysis against right answers and every kind of wrong one."""

import numpy as np
from ctrlab.lessons.topics.analysis import checks
from solved import solved
from wrong_answers import judge

from ctrlab.embedding import analysis
from ctrlab.embedding.table_state import TableState

LESSON = "03_embedding/08_analysis"
right, life = solved(LESSON, 1), solved(LESSON, 2)


def more_than(frequency, thresholds):
    return right(frequency, thresholds + 1)


def of_rows(frequency, thresholds):
    rows, _ = right(frequency, thresholds)
    return rows, rows / max(len(frequency), 1)


def what_goes(frequency, thresholds):
    rows, traffic = right(frequency, thresholds)
    return len(frequency) - rows, 1 - traffic


def over_those_that_stay(frequency, thresholds):
    rows, _ = right(frequency, thresholds)
    return rows, np.ones(len(thresholds))


def sorted_thresholds(frequency, thresholds):
    return right(frequency, np.sort(thresholds))


def a_table(frequency, thresholds):
    stay = frequency[None] >= thresholds[:, None]
    return stay.sum(1), (stay * frequency).sum(1) / max(frequency.sum(), 1)


def rows_alone(frequency, thresholds):
    return right(frequency, thresholds)[0]


def one_by_one(frequency, thresholds):
    stay = [frequency[frequency >= threshold] for threshold in thresholds]
    rows = np.array([len(of_one) for of_one in stay], np.int64)
    return rows, np.array([of_one.sum() for of_one in stay], np.float64) / max(frequency.sum(), 1)


def sums_in_single(frequency, thresholds):
    rows, _ = right(frequency, thresholds)
    left = np.concatenate([[0], np.cumsum(np.sort(frequency)[::-1].astype(np.float32))])
    return rows, (left[rows] / max(left[-1], 1)).astype(np.float64)


def rows_in_32_bits(frequency, thresholds):
    rows, traffic = right(frequency, thresholds)
    return rows.astype(np.int32), traffic


def lists(frequency, thresholds):
    return tuple(found.tolist() for found in right(frequency, thresholds))


def not_a_number_where_nothing_came(frequency, thresholds):
    rows, traffic = right(frequency, thresholds)
    return rows, traffic if frequency.size else traffic * np.nan


def at_least_once(frequency, thresholds):
    return right(frequency, np.maximum(thresholds, 1))


def sorts_the_thresholds(frequency, thresholds):
    found = right(frequency, thresholds)
    thresholds.sort()
    return found


WRONG = [
    at_least_once,
    sums_in_single,
    rows_in_32_bits,
    lists,
    not_a_number_where_nothing_came,
    sorts_the_thresholds,
    more_than,
    of_rows,
    what_goes,
    over_those_that_stay,
    sorted_thresholds,
    a_table,
    one_by_one,
    rows_alone,
]


def longest(last_step, frequency, now, keep):
    return max(1, int((now - last_step).max()))


def of_keys(last_step, frequency, now, keep):
    return life(last_step, np.ones_like(frequency), now, keep)


def from_the_last_step_seen(last_step, frequency, now, keep):
    return life(last_step, frequency, int(last_step.max()), keep)


def the_step(last_step, frequency, now, keep):
    return now - life(last_step, frequency, now, keep)


def may_be_zero(last_step, frequency, now, keep):
    found = life(last_step, frequency, now, keep)
    return 0 if np.all(last_step == now) else found


def more_than_the_share(last_step, frequency, now, keep):
    return life(last_step, frequency, now, keep + 1e-6) if keep < 1 else life(last_step, frequency, now, keep)


def a_float(last_step, frequency, now, keep):
    return float(life(last_step, frequency, now, keep))


def a_truth(last_step, frequency, now, keep):
    found = life(last_step, frequency, now, keep)
    return True if found == 1 else found


def whole_percents(last_step, frequency, now, keep):
    return life(last_step, frequency, now, round(keep, 2))


def shares_in_single(last_step, frequency, now, keep):
    age = now - last_step
    order = np.argsort(age)
    share = (np.cumsum(frequency[order]) / frequency.sum()).astype(np.float32)
    return max(1, int(age[order][np.argmax(share >= np.float32(keep))]))


def past_the_share(last_step, frequency, now, keep):
    age = now - last_step
    order = np.argsort(age)
    left = np.cumsum(frequency[order])
    return max(1, int(age[order][min(np.searchsorted(left, keep * left[-1], "right"), len(left) - 1)]))


def sorts_what_it_was_given(last_step, frequency, now, keep):
    found = life(last_step, frequency, now, keep)
    frequency.sort()
    return found


LIVES = [longest, of_keys, from_the_last_step_seen, the_step, may_be_zero, more_than_the_share, a_float]
LIVES += [a_truth, whole_percents, shares_in_single, past_the_share, sorts_what_it_was_given]
test_right, test_wrong = judge(LESSON, {1: (right, WRONG), 2: (life, LIVES)})


def test_the_definitions_are_those_of_the_analysis():
    rng = np.random.default_rng(5)
    n = 300
    state = TableState(np.arange(n), np.ones((n, 2)), {}, rng.zipf(1.5, n).clip(max=999), rng.integers(1, 90, n))
    table = analysis.report({"t": state})
    rows, traffic = checks.what_if(state.frequencies, np.arange(1, 9))
    left = analysis.admission(table, range(1, 9))
    assert np.array_equal(rows, left.rows) and np.allclose(traffic, left.traffic)
    now = int(state.steps.max())
    for keep in (0.5, 0.9, 1.0):
        assert checks.shortest_life(state.steps, state.frequencies, now, keep) == analysis.suggest_steps_to_live(table, keep)

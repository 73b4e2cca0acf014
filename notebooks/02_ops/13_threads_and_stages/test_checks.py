"""The checks of the lesson on threads and stages against right answers and every kind of wrong one."""

import statistics

import numpy as np
import pytest
import tensorflow as tf
from ctrlab.lessons.topics.threads_and_stages import checks
from solved import solved
from wrong_answers import named, require_told

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed
from ctrlab.profiling.timing import Interval

LESSON = "02_ops/13_threads_and_stages"
right, choose = solved(LESSON, 1), solved(LESSON, 2)


def one_call_at_a_time(batches, encode, depth):
    return batches.map(lambda f, y: (encode(f), y)).prefetch(depth)


def no_op(batches, encode, depth):
    return batches


def no_prefetch(batches, encode, depth):
    return batches.map(lambda f, y: (encode(f), y))


def prefetch_before(batches, encode, depth):
    return batches.prefetch(depth).map(lambda f, y: (encode(f), y))


def any_order(batches, encode, depth):
    return right(batches, encode, depth).shuffle(8)


def too_far(batches, encode, depth):
    return batches.map(lambda f, y: (encode(f), y)).prefetch(10_000)


def drops_the_last(batches, encode, depth):
    return right(batches, encode, depth).take(2)


def forgets_labels(batches, encode, depth):
    return batches.map(lambda f, y: encode(f)).prefetch(depth)


def encodes_labels(batches, encode, depth):
    return batches.map(lambda f, y: (encode(f), y + 1)).prefetch(depth)


def twice(batches, encode, depth):
    return batches.map(lambda f, y: (encode(encode(f)), y)).prefetch(depth)


def repeats(batches, encode, depth):
    return right(batches, encode, depth).take(3).repeat(2)


def a_list(batches, encode, depth):
    return [(encode(f), y) for f, y in batches]


def eager(batches, encode, depth):
    features = [(encode(f), y) for f, y in batches]
    if not features:
        return right(batches, encode, depth)
    return tf.data.Dataset.from_tensor_slices(tuple(tf.stack(part) for part in zip(*features)))


def cached(batches, encode, depth):
    return batches.map(lambda f, y: (encode(f), y)).cache().prefetch(depth)


def always_two(batches, encode, depth):
    return batches.map(lambda f, y: (encode(f), y), num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)


def for_ever(batches, encode, depth):
    return right(batches, encode, depth).repeat()


@pytest.mark.parametrize("answer", [right, one_call_at_a_time])
def test_right_stages_pass(answer):
    check.run(LESSON, 1, answer)


WRONG = [
    (no_op, "same order"),
    (no_prefetch, "the next `depth`"),
    (prefetch_before, "the next `depth`"),
    (any_order, "same order"),
    (too_far, "not the whole data set"),
    (drops_the_last, "same order"),
    (forgets_labels, "features, labels"),
    (encodes_labels, "same order"),
    (twice, "same order"),
    (repeats, "same order"),
    (a_list, "is a data set"),
    (eager, "before somebody asks"),
    (cached, "once it was taken"),
    (always_two, "the next `depth`"),
    (for_ever, "same order"),
]


@pytest.mark.parametrize(("answer", "says"), WRONG, ids=lambda v: getattr(v, "__name__", ""))
def test_wrong_stages_fail(answer, says, monkeypatch):
    monkeypatch.setattr(checks, "PATIENCE", 0.3)
    with pytest.raises(CheckFailed) as refused:
        check.run(LESSON, 1, answer, 0)
    require_told(refused.value, says)


def by_median(ratios):
    middle = {name: statistics.median(pairs) for name, pairs in ratios.items()}
    return max((n for n in middle if middle[n] > 1), key=middle.get, default=None)


def by_mean(ratios):
    middle = {name: np.mean(pairs) for name, pairs in ratios.items()}
    return max((n for n in middle if middle[n] > 1), key=middle.get, default=None)


def by_luck(ratios):
    return max(ratios, key=lambda name: max(ratios[name]), default=None)


def without_coverage(ratios):
    found = {name: Interval.of(pairs) for name, pairs in ratios.items()}
    return max((n for n in found if found[n].low > 1), key=lambda n: found[n].median, default=None)


def by_low(ratios):
    found = {name: Interval.of(pairs) for name, pairs in ratios.items()}
    sure = [n for n in found if found[n].low >= 1 and found[n].coverage >= 0.95]
    return max(sure, key=lambda n: found[n].low, default=None)


def always_none(ratios):
    return None


def needs_one(ratios):
    return max(ratios, key=lambda n: Interval.of(ratios[n]).low)


def greatest_low(ratios):
    found = {name: Interval.of(pairs) for name, pairs in ratios.items()}
    sure = [n for n in found if found[n].low > 1 and found[n].coverage >= 0.95]
    return max(sure, key=lambda n: found[n].low, default=None)


def greatest_mean(ratios):
    found = {name: Interval.of(pairs) for name, pairs in ratios.items()}
    sure = [n for n in found if found[n].low > 1 and found[n].coverage >= 0.95]
    return max(sure, key=lambda n: np.mean(ratios[n]), default=None)


def nine_of_ten(ratios):
    found = {name: Interval.of(pairs) for name, pairs in ratios.items()}
    sure = [n for n in found if found[n].low > 1 and found[n].coverage >= 0.9]
    return max(sure, key=lambda n: found[n].median, default=None)


def first_six(ratios):
    return choose({name: pairs[:6] for name, pairs in ratios.items()})


def nine_pairs(ratios):
    return choose({name: pairs for name, pairs in ratios.items() if len(pairs) >= 9})


OF_INTERVALS = [greatest_low, greatest_mean, nine_of_ten, first_six, nine_pairs]


@pytest.mark.parametrize("seed", range(5))
def test_the_right_choice_passes(seed):
    check.run(LESSON, 2, choose, seed)


@pytest.mark.parametrize(
    "answer", [by_median, by_mean, by_luck, without_coverage, by_low, always_none, needs_one, *OF_INTERVALS], ids=named
)
def test_wrong_choices_fail(answer):
    with pytest.raises(CheckFailed):
        check.run(LESSON, 2, answer, 0)

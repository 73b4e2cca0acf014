"""The check of the search for the most requests in the lesson on latency, against right answers and every kind of wrong one."""

import math

import numpy as np
import pytest
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check

LESSON = "04_serving/05_latency"
most_within = solved(LESSON, 2)


def searches(
    counts=lambda took, within: 100 * sum(each <= within for each in took) >= 99 * len(took),
    tries=2,
    seeds=1,
    until=1.08,
    least=1,
):
    """A search of which one thing is another."""

    def answer(run, within, rate):
        low, high, seed = 0, math.inf, 0
        while high > until * low:
            for _ in range(tries):
                held, seed = counts(run(rate, seed), within), seed + seeds
                if held:
                    break
            low, high = (rate, high) if held else (low, rate)
            rate = 2 * low if high == math.inf else math.sqrt(low * high) if low else high / 2
            if rate < least:
                return 0
        return low

    return answer


def named(name, answer):
    answer.__name__ = name
    return answer


def says(change):
    return lambda run, within, rate: change(most_within(run, within, rate))


def always_twice(run, within, rate):
    return most_within(lambda *of: [run(*of), run(of[0], of[1] + 1_000)][1], within, rate)


def in_small_steps(run, within, rate):
    found = 0
    for seed in range(0, 180, 2):
        if not any(100 * sum(t <= within for t in run(rate, seed + k)) >= 99 * 100 for k in range(2)):
            return found
        found, rate = rate, 1.05 * rate
    return found


def goes_below_one(run, within, rate):
    low, high, seed = 0, math.inf, 0
    while high > 1.08 * low:
        held = any(100 * sum(t <= within for t in took) >= 99 * len(took) for took in (run(rate, seed), run(rate, seed + 1)))
        seed += 2
        low, high = (rate, high) if held else (low, rate)
        rate = 2 * low if high == math.inf else math.sqrt(low * high) if low else high / 2
    return low


SEARCHES = dict.fromkeys((
    named("no_op", lambda run, within, rate: None),
    named("constant", lambda run, within, rate: 100.0),
    named("the_first", lambda run, within, rate: rate),
    named("the_one_that_failed", says(lambda found: 1.08 * found)),
    named("rounds", says(round)),
    named("as_words", says(str)),
    named("by_the_mean", searches(lambda took, within: np.mean(took) <= within)),
    named("by_the_median", searches(lambda took, within: np.median(took) <= within)),
    named("by_the_slowest", searches(lambda took, within: max(took) <= within)),
    named("by_interpolation", searches(lambda took, within: np.percentile(took, 99) <= within)),
    named("below_the_limit", searches(lambda took, within: 100 * sum(each < within for each in took) >= 99 * len(took))),
    named("one_more_slow", searches(lambda took, within: sum(each <= within for each in took) >= int(0.99 * len(took)) - 1)),
    named("rounds_down", searches(lambda took, within: sum(each <= within for each in took) >= int(0.99 * len(took)))),
    named("of_those_answered", searches(
        lambda took, within: 100 * sum(each <= within for each in took) >= 99 * sum(each < math.inf for each in took)
    )),
    named("in_order_of_due", searches(lambda took, within: took[math.ceil(0.99 * len(took)) - 1] <= within)),
    named("of_a_hundred", searches(lambda took, within: sum(each <= within for each in took) >= 99)),
    named("nothing_fails", searches(lambda took, within: True)),
    named("never_again", searches(tries=1)),
    named("three_times", searches(tries=3)),
    named("again_with_the_same_seed", searches(seeds=0)),
    named("stops_early", searches(until=1.3)),
    named("gives_up_at_two", searches(least=2)),
    named("gives_up_at_one", searches(least=1.01)),
    always_twice, in_small_steps, goes_below_one,
))  # fmt: skip
SEARCHES[named("by_the_p95", searches(lambda took, within: np.percentile(took, 95) <= within))] = (
    "doubles without end; .* failed, and was taken to hold"
)
SEARCHES[
    named("of_five_in_a_hundred", searches(lambda took, within: sum(each <= within for each in took) >= 0.95 * len(took)))
] = "doubles without end; .* failed, and was taken to hold"
test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {2: (most_within, SEARCHES)})


def halves_the_range(run, within, rate):
    """In the middle, and with the percentile as a rank."""
    seeds = iter(range(1_000))

    def holds(rate):
        for _ in range(2):
            took = sorted(run(rate, next(seeds)))
            if took[math.ceil(99 * len(took) / 100) - 1] <= within:
                return True
        return False

    if holds(rate):
        low = rate
        while holds(2 * low):
            low *= 2
        high = 2 * low
    else:
        high = rate
        while high / 2 >= 1 and not holds(high / 2):
            high /= 2
        if high / 2 < 1:
            return 0
        low = high / 2
    while high / low > 1.08:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@pytest.mark.parametrize("seed", range(3))
def test_another_right_answer_passes(seed):
    check.run(LESSON, 2, halves_the_range, seed)

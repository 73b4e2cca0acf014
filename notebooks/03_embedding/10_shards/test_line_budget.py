"""A budget of lines: loops are ended, calls of NumPy are one line."""

import sys

import numpy as np
import pytest
from ctrlab.lessons.topics.shards.line_budget import within

from ctrlab.lessons.check import CheckFailed

RULES = {"rule": "no loop", "next_step": "write it without"}


def in_numpy(x):
    keys, place = np.unique(x, return_inverse=True)
    return keys[place].sum()


def loop(x):
    total = 0
    for each in x:
        total += each
    return total


def comprehension(x):
    return sum([each for each in x])


def generator(x):
    return sum(each for each in x)


def elsewhere(x):
    return sum(map(lambda each: each, x))


@pytest.mark.parametrize("answer", [loop, comprehension, generator, elsewhere])
def test_a_loop_is_ended(answer):
    with pytest.raises(CheckFailed, match=r"Budget: no loop\.\n.*at most 50 lines[^\n]*\n.*a loop, at line \d+"):
        within(50, answer, **RULES)(np.arange(1_000))
    assert within(50, answer, **RULES)(np.arange(9)) == 36


def test_what_numpy_does_is_not_counted():
    assert within(3, in_numpy, **RULES)(np.arange(1_000)) == 499_500


def test_whoever_traced_before_goes_on():
    def trace(*_):
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        within(50, in_numpy, **RULES)(np.arange(3))
        assert sys.gettrace() is trace
        with pytest.raises(CheckFailed):
            within(50, loop, **RULES)(np.arange(1_000))
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)

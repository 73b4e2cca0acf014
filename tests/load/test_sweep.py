"""The search for the largest rate: on servers whose limit is known."""

import math

import numpy as np
import pytest
from fake_servers import answering, serving

from ctrlab.errors import CtrlabError
from ctrlab.load import arrivals
from ctrlab.load.client import Target, post, send
from ctrlab.load.outcome import Outcome
from ctrlab.load.sweep import PRECISION, most_within


def server_of(limit, lag=0.0):
    """A run against a server that answers all within 10 ms up to a rate, and beyond it none within a second."""

    def run(rate, seed):
        return Outcome(rate, 1.0, (0.01 if rate <= limit else 2.0,) * 100, lag=lag if rate > limit else 0.0)

    return run


@pytest.mark.parametrize("limit", [1.5, 7, 40, 333, 5_000])
@pytest.mark.parametrize("start", [1, 50, 1_000])
def test_the_limit_is_found_from_anywhere(limit, start):
    found = most_within(server_of(limit), 0.05, start)
    held = [one.rate for one in found.tries if one.percentile(99) <= 0.05]
    failed = [one.rate for one in found.tries if one.percentile(99) > 0.05]
    assert max(held) <= limit < min(failed) <= PRECISION * max(held)
    assert found.rate == min(100.0, max(held)) and not found.of_generator


def test_a_server_that_can_do_nothing_has_zero():
    found = most_within(server_of(0), 0.05, 10_000)
    assert found.rate == 0.0
    assert [one.rate for one in found.tries] == [10_000] * 2 + [5_000] * 2 + [1] * 2, "known early"


def test_a_search_that_the_generator_ended_says_so():
    assert most_within(server_of(40, lag=0.5), 0.05, 10).of_generator


def test_a_rate_that_fails_once_is_tried_again():
    failed = []

    def run(rate, seed):
        slow = rate == 10 and not failed
        if slow:
            failed.append(rate)
        return Outcome(rate, 1.0, (2.0 if slow or rate > 10 else 0.01,) * 100)

    assert max(one.rate for one in most_within(run, 0.05, 10).tries if one.percentile(99) < 1) == 10


def test_the_search_ends_at_the_highest_rate():
    assert most_within(server_of(math.inf), 0.05, 10, highest=50).tries[-1].rate == 50


@pytest.mark.parametrize("limit, start", [(0, 1), (math.inf, 1), (0.1, 0.5), (0.1, 1e9)])
def test_a_search_that_makes_no_sense_is_refused(limit, start):
    with pytest.raises(CtrlabError, match="A search has a limit above 0 and begins at 1 to"):
        most_within(server_of(1), limit, start)


def test_percentiles_are_of_all_requests():
    found = Outcome(1.0, 1.0, tuple((np.arange(1, 99) / 100).tolist()), {"timeout": 2})
    assert found.percentile(50) == 0.5 and found.percentile(98) == 0.98 and found.percentile(99) == math.inf
    assert Outcome.from_json(found.to_json()) == found


def test_a_real_server_of_known_capacity():
    """One request at a time, 10 ms each: 100 a second and no more; within 200 ms a queue of Poisson arrivals holds most of it."""
    with serving(answering(seconds=0.01, at_once=1)) as port:

        def run(rate, seed):
            return send([Target("127.0.0.1", port)], [post("/", b"{}")], arrivals.poisson(rate, 2, seed), rate=rate, seconds=2)

        found = most_within(run, 0.2, 40)
    assert 10 < found.rate < 105

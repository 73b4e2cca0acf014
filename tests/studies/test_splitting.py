"""The model of what splitting ops costs: its constants come back from exact pools, and CPU time is a request's own."""

import contextlib
import time

import numpy as np
import pytest
from ctrlab.lessons.topics.session_groups.one_request import closed_loop
from hypothesis import given
from hypothesis import strategies as st

from ctrlab.errors import CtrlabError
from studies.groups.splitting import FITTED, HELD_OUT, Pools, Splitting, fit, measure

SECONDS = st.floats(1e-5, 1.0)


def pools_of(model):
    threads = [*FITTED, *HELD_OUT]
    return Pools(threads, [[model.cpu(n)] * 3 for n in threads])


@given(alone=SECONDS, share=st.floats(0.001, 1), most=st.sampled_from(FITTED[1:]))
def test_constants_come_back_from_exact_pools(alone, share, most):
    right = Splitting(alone, share * alone, most)
    found = pools_of(right).fitted()
    assert found.most == most
    np.testing.assert_allclose((found.alone, found.part), (right.alone, right.part), rtol=1e-6)
    assert all(abs(error) < 1e-6 for error in pools_of(right).errors().values())


def test_a_pool_that_splits_nothing_gains_nothing():
    model = fit(dict.fromkeys(FITTED, 2e-3))
    assert model.gain(128) == pytest.approx(1)


def test_the_gain_ends_where_ops_are_split_no_further():
    model = Splitting(1.0, 0.1, 4)
    assert [model.gain(cores) for cores in (1, 2, 4, 128)] == pytest.approx([1, 1.1, 1.3, 1.3])


def test_a_pool_that_is_not_as_the_model_says_is_seen():
    """The held-out pools are not what the constants come from."""
    exact = pools_of(Splitting(1e-3, 1e-4, 16))
    cpu = [[2 * each for each in of] if threads in HELD_OUT else of for threads, of in zip(exact.threads, exact.cpu)]
    assert Pools(exact.threads, cpu).errors() == pytest.approx(dict.fromkeys(HELD_OUT, -0.5))


@pytest.mark.parametrize("cpu", [{1: 1.0, 2: 1.0}, {1: 0.0, 2: 1.0, 4: 1.0}, {}])
def test_too_few_pools_and_odd_times_are_one_sentence(cpu):
    with pytest.raises(CtrlabError, match="times above 0 of at least three pools; received"):
        fit(cpu)


def test_times_that_fall_are_noise():
    """Handing over takes no time away."""
    found = fit({1: 1.0e-3, 2: 0.9e-3, 4: 0.8e-3, 16: 0.9e-3})
    assert found.part == 0 and found.gain(64) == 1 and 0.8e-3 < found.alone < 1e-3


def test_cpu_time_is_a_request_s_own():
    """A request works for a time that grows with its pool, and then waits for as long: the wait is not counted."""

    @contextlib.contextmanager
    def pool(threads):
        def ask():
            ends = time.thread_time() + 1e-3 * (1 + 0.5 * (threads > 1))
            while time.thread_time() < ends:
                pass
            time.sleep(1e-3)

        yield ask

    found = measure(pool, lambda ask, seconds: closed_loop(ask, seconds, callers=1), 0.2, 3)
    assert sorted(found.threads) == sorted((*FITTED, *HELD_OUT)) and all(len(of) == 3 for of in found.cpu)
    medians = dict(zip(found.threads, np.median(found.cpu, axis=1)))
    assert 0.95e-3 < medians[1] < 1.4e-3 < medians[2] < 2.2e-3

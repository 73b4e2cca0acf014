"""The A/B split by a hash of the user: stable, in proportion, independent of other experiments, and as calm as can be."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab.errors import CtrlabError
from ctrlab.server.arms import Split

USERS = [f"A{n}" for n in range(20_000)]
names = st.text(min_size=1, max_size=20)


@st.composite
def percents(draw, most=5):
    """{arm: percent}, 100 in all."""
    cuts = sorted(draw(st.lists(st.integers(0, 100), max_size=most - 1)))
    return {f"arm{n}": float(b - a) for n, (a, b) in enumerate(zip([0, *cuts], [*cuts, 100]))}


@given(names, percents(), st.lists(st.text(), min_size=1, max_size=20))
@settings(deadline=None)
def test_a_user_has_one_arm_whoever_asks_and_in_whatever_order(experiment, percent, users):
    first, second = Split(experiment, percent), Split(experiment, dict(percent))
    arms = {user: first.arm(user) for user in users}
    assert {user: second.arm(user) for user in reversed(users)} == arms
    assert all(percent[arm] > 0 for arm in arms.values()), "an arm of 0 % has nobody"
    assert all(first.arm(user.encode()) == arm for user, arm in arms.items())


def test_another_process_has_the_same_arms_whatever_its_hash_seed():
    program = "from ctrlab.server.arms import Split; s = Split('e', {'a': 50, 'b': 50}); "
    program += "print(''.join(s.arm(f'A{n}') for n in range(200)))"
    said = {
        subprocess.run([sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True).stdout
        for seed in ("1", "2")
    }
    split = Split("e", {"a": 50, "b": 50})
    assert said == {"".join(split.arm(f"A{n}") for n in range(200)) + "\n"}


@given(names, percents())
@settings(deadline=None, max_examples=20)
def test_arms_have_their_percent_of_the_users(experiment, percent):
    split = Split(experiment, percent)
    counts = dict.fromkeys(percent, 0)
    for user in USERS:
        counts[split.arm(user)] += 1
    for arm, part in percent.items():
        p = part / 100
        assert abs(counts[arm] - p * len(USERS)) <= 5 * np.sqrt(p * (1 - p) * len(USERS)) + 1e-9


def test_experiments_are_independent():
    one, other = (Split(name, {"a": 50, "b": 50}) for name in ("one", "other"))
    both = np.array([[one.arm(user) == "a", other.arm(user) == "a"] for user in USERS])
    share = both.all(axis=1).mean()
    assert abs(share - 0.25) < 5 * np.sqrt(0.25 * 0.75 / len(USERS))
    assert [one.arm(user) for user in USERS] == [Split("one", {"a": 50, "b": 50}).arm(user) for user in USERS]


@given(st.integers(0, 100), st.integers(0, 100))
@settings(deadline=None, max_examples=30)
def test_with_two_arms_only_as_many_users_move_as_percents_do(before, after):
    old, new = (Split("e", {"a": part, "b": 100 - part}) for part in (before, after))
    moves = [(old.arm(user), new.arm(user)) for user in USERS if old.arm(user) != new.arm(user)]
    assert set(moves) <= {("b", "a") if after > before else ("a", "b")}
    p = abs(after - before) / 100
    assert abs(len(moves) - p * len(USERS)) <= 5 * np.sqrt(p * (1 - p) * len(USERS)) + 1e-9


def test_users_move_where_a_boundary_did_and_nowhere_else():
    old, new = Split("e", {"a": 50, "b": 30, "c": 20}), Split("e", {"a": 60, "b": 20, "c": 20})
    assert {(old.arm(user), new.arm(user)) for user in USERS} == {("a", "a"), ("b", "b"), ("c", "c"), ("b", "a")}


@pytest.mark.parametrize(
    ("experiment", "percent", "says"),
    [
        ("", {"a": 50, "b": 50}, "has a name"),
        ("e", {"a": 50, "b": 49}, r"add up to 100; received a 50 %, b 49 %"),
        ("e", {"a": 110, "b": -10}, "from 0 on"),
        ("e", {"a": float("nan"), "b": 50}, "from 0 on"),
        ("e", {}, "received no arm"),
    ],
)
def test_a_split_that_makes_no_sense_is_refused(experiment, percent, says):
    with pytest.raises(CtrlabError, match=says):
        Split(experiment, percent)

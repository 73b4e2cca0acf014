"""The check of the lesson on fleets that splits users among arms, against right answers and every kind of wrong one."""

import hashlib
import os
import random
import subprocess
import sys
import zlib

import numpy as np
import pytest
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed

LESSON = "04_serving/10_fleet"
arm_of = solved(LESSON, 1)


def hash64(text):
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def by_rendezvous(user, experiment, percents):
    """Another right answer: the arm with the best score, weighed by its percent."""
    scores = {arm: hash64(f"{experiment}/{user}/{arm}") / 2**64 for arm, percent in percents.items() if percent}
    return max(scores, key=lambda arm: -percents[arm] / np.log(scores[arm] or 1e-30))


def by_a_seeded_generator(user, experiment, percents):
    """Another one: Python's generator takes a text's bytes as its seed, not its hash()."""
    return random.Random(f"{experiment}/{user}").choices(list(percents), list(percents.values()))[0]


def no_op(user, experiment, percents):
    pass


def constant(user, experiment, percents):
    return max(percents, key=percents.get)


def per_request(user, experiment, percents):
    return random.choices(list(percents), list(percents.values()))[0]


drawn = {}


def drawn_once(user, experiment, percents):
    """Each server stores what it has drawn."""
    if (user, experiment) not in drawn:
        drawn[user, experiment] = random.choices(list(percents), list(percents.values()))[0]
    arm = drawn[user, experiment]
    return arm if percents.get(arm) else constant(user, experiment, percents)


def _place(at, percents):
    for arm, percent in percents.items():
        at -= percent
        if at < 0:
            return arm
    return arm


def pythons_hash(user, experiment, percents):
    return _place(hash(f"{experiment}/{user}") % 10**6 / 10**4, percents)


def reseeds_the_program(user, experiment, percents):
    random.seed(f"{experiment}/{user}")
    return random.choices(list(percents), list(percents.values()))[0]


def unsalted(user, experiment, percents):
    return _place(100 * hash64(user) / 2**64, percents)


def shifted_by_the_experiment(user, experiment, percents):
    """The experiment is added after the hash."""
    return _place((hash64(user) + hash64(experiment)) % 2**64 / 2**64 * 100, percents)


def begins_each_arm_at_zero(user, experiment, percents):
    place = 100 * hash64(f"{experiment}/{user}") / 2**64
    return next((arm for arm, percent in percents.items() if place < percent), list(percents)[-1])


def salted_by_its_length(user, experiment, percents):
    return _place(100 * hash64(f"{len(experiment)}/{user}") / 2**64, percents)


def salted_by_its_letters(user, experiment, percents):
    return _place(100 * hash64(f"{sorted(experiment)}/{user}") / 2**64, percents)


def salted_in_lower_case(user, experiment, percents):
    return _place(100 * hash64(f"{experiment.lower()}/{user}") / 2**64, percents)


def the_experiment_alone(user, experiment, percents):
    return _place(100 * hash64(experiment) / 2**64, percents)


def whole_percents(user, experiment, percents):
    return _place(hash64(f"{experiment}/{user}") % 100, percents)


def tenths_of_a_percent(user, experiment, percents):
    return _place(hash64(f"{experiment}/{user}") % 1000 / 10, percents)


def of_one_byte(user, experiment, percents):
    """Modulo bias: 256 values by 100."""
    return _place(hashlib.blake2b(f"{experiment}/{user}".encode()).digest()[0] % 100, percents)


def by_the_last_digit(user, experiment, percents):
    digits = "".join(c for c in user if c.isdigit()) or "0"
    return _place(10 * int(digits[-1]), percents)


def sum_of_letters(user, experiment, percents):
    return _place(sum(map(ord, experiment + user)) % 100, percents)


def halves_only(user, experiment, percents):
    names = [arm for arm, percent in percents.items() if percent]
    return names[hash64(f"{experiment}/{user}") % len(names)]


def salted_by_the_percents(user, experiment, percents):
    return _place(100 * hash64(f"{experiment}/{percents}/{user}") / 2**64, percents)


def the_smallest_arm_first(user, experiment, percents):
    """The arms change places where one outgrows the other."""
    return _place(100 * hash64(f"{experiment}/{user}") / 2**64, dict(sorted(percents.items(), key=lambda each: each[1])))


def counts_the_users(user, experiment, percents, seen=[]):  # noqa: B006
    seen.append(user)
    return _place(len(seen) * 37 % 100, percents)


def takes_off(user, experiment, percents):
    arm = arm_of(user, experiment, percents)
    percents.clear()
    return arm


def a_number(user, experiment, percents):
    return list(percents).index(arm_of(user, experiment, percents))


def an_arm_of_nobody(user, experiment, percents):
    return next(iter(percents)) if user == "" else arm_of(user, experiment, percents)


def needs_a_user(user, experiment, percents):
    assert user
    return arm_of(user, experiment, percents)


def ascii_only(user, experiment, percents):
    return _place(100 * int(hashlib.sha1(f"{experiment}/{user}".encode("ascii")).hexdigest(), 16) / 2**160, percents)


def crc(user, experiment, percents):
    """A checksum is linear: with experiments of the same length it says of any two users whether they are apart."""
    return _place(100 * zlib.crc32(f"{experiment}/{user}".encode()) / 2**32, percents)


ARMS = {
    no_op: "name of an arm that has users",
    constant: None,
    per_request: "A user who comes again",
    drawn_once: "Another server",
    pythons_hash: "Another server",
    reseeds_the_program: "leaves the program's random numbers alone",
    unsalted: "independently",
    shifted_by_the_experiment: "independently",
    salted_by_its_length: "independently",
    salted_by_its_letters: "independently",
    salted_in_lower_case: "independently",
    crc: "independently",
    the_experiment_alone: "percent of the users",
    whole_percents: "few places",
    tenths_of_a_percent: "few places",
    begins_each_arm_at_zero: "begins where the one before it ends",
    of_one_byte: "percent of the users",
    by_the_last_digit: None,
    sum_of_letters: None,
    halves_only: "percent of the users",
    salted_by_the_percents: "nobody leaves it",
    the_smallest_arm_first: "nobody leaves it",
    counts_the_users: None,
    takes_off: None,
    a_number: "name of an arm",
    an_arm_of_nobody: "name of an arm that has users",
    needs_a_user: "answers every valid input",
    ascii_only: "answers every valid input",
}


test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {1: (arm_of, ARMS)})


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("answer", [by_rendezvous, by_a_seeded_generator])
def test_other_right_splits_pass(answer, seed):
    check.run(LESSON, 1, answer, seed)


def test_an_answer_without_a_source_is_told_so():
    with pytest.raises(CheckFailed, match="by `def`"):
        check.run(LESSON, 1, eval("lambda user, experiment, percents: 'a'"), 0)


def test_a_right_answer_passes_in_a_program_that_has_not_imported_tensorflow():
    """Its import draws random numbers, and the check is who imports it."""
    program = f"""
import sys
from solved import solved
from ctrlab.lessons import check
right = solved({LESSON!r}, 1)
assert "tensorflow" not in sys.modules
check.run({LESSON!r}, 1, right)
"""
    subprocess.run([sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, check=True)

"""The checks of the lesson on session groups against right answers and every kind of wrong one."""

import threading

import pytest
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed

LESSON = "04_serving/06_session_groups"
cpu_sets = solved(LESSON, 2)


class Router:
    """Right, in parts that the wrong ones change."""

    def __init__(self, members, lock):
        self.lock, self.calls = lock, 0
        self.inside, self.last = [0] * members, [0] * members

    def pick(self):
        return min(range(len(self.inside)), key=lambda m: (self.inside[m], self.last[m]))

    def enter(self):
        with self.lock:
            member = self.pick()
            self.inside[member] += 1
            self.calls += 1
            self.last[member] = self.calls
        return member

    def leave(self, member):
        with self.lock:
            self.inside[member] -= 1

    def run(self, call):
        member = self.enter()
        try:
            return call(member)
        finally:
            self.leave(member)


class NoOp(Router):
    def run(self, call):
        pass


class AlwaysTheFirst(Router):
    def pick(self):
        return 0


class RoundRobin(Router):
    def pick(self):
        return self.calls % len(self.inside)


class LowestNumber(Router):
    def pick(self):
        return self.inside.index(min(self.inside))


class HighestNumber(Router):
    def pick(self):
        return max(range(len(self.inside)), key=lambda m: (-self.inside[m], -self.last[m], m))


class UsedLast(Router):
    def pick(self):
        return min(range(len(self.inside)), key=lambda m: (self.inside[m], -self.last[m]))


class IdleLongest(Router):
    """Whatever is inside."""

    def pick(self):
        return self.last.index(min(self.last))


class MostInside(Router):
    def pick(self):
        return max(range(len(self.inside)), key=lambda m: (self.inside[m], self.last[m]))


class ForgetsFailures(Router):
    def run(self, call):
        member = self.enter()
        found = call(member)
        self.leave(member)
        return found


class ForgetsToLeave(Router):
    def leave(self, member):
        with self.lock:
            pass


class LeavesTwice(Router):
    def leave(self, member):
        with self.lock:
            self.inside[member] = max(0, self.inside[member] - 2)


class CountsExceptionsAlone(Router):
    """Ctrl-C and the like leave their call inside."""

    def run(self, call):
        member = self.enter()
        try:
            found = call(member)
        except Exception:
            self.leave(member)
            raise
        self.leave(member)
        return found


class RaisesACopy(Router):
    def run(self, call):
        try:
            return super().run(call)
        except Exception as error:
            raise type(error)(*error.args) from error


class HidesFailures(Router):
    def run(self, call):
        try:
            return super().run(call)
        except Exception:
            return None


class TriesAgain(Router):
    def run(self, call):
        try:
            return super().run(call)
        except Exception:
            return super().run(call)


class ForgetsTheAnswer(Router):
    def run(self, call):
        super().run(call)


class CallsWithTheLock(Router):
    def run(self, call):
        with self.lock:
            member = self.pick()
            self.calls += 1
            self.last[member] = self.calls
            return call(member)


class WithoutALock(Router):
    def enter(self):
        member = self.pick()
        self.inside[member] += 1
        self.calls += 1
        self.last[member] = self.calls
        return member


class LeavesWithoutALock(Router):
    def leave(self, member):
        self.inside[member] -= 1


class ALockOfItsOwn(Router):
    def __init__(self, members, lock):
        super().__init__(members, threading.Lock())


class LooksThenCounts(Router):
    def enter(self):
        with self.lock:
            member = self.pick()
        with self.lock:
            self.inside[member] += 1
            self.calls += 1
            self.last[member] = self.calls
        return member


class CountsInTheCall(Router):
    """The turn is noted when the call has ended."""

    def enter(self):
        with self.lock:
            member = self.pick()
            self.inside[member] += 1
        return member

    def leave(self, member):
        with self.lock:
            self.inside[member] -= 1
            self.calls += 1
            self.last[member] = self.calls


class OneMore(Router):
    def run(self, call):
        return super().run(lambda member: call(member + 1))


class TellsANameOfIt(Router):
    def run(self, call):
        return super().run(lambda member: call(str(member)))


def nothing(members, lock):
    pass


WRONG_ROUTERS = [
    CountsExceptionsAlone,
    RaisesACopy,
    NoOp, AlwaysTheFirst, RoundRobin, LowestNumber, HighestNumber, UsedLast, IdleLongest, MostInside, ForgetsFailures,
    ForgetsToLeave, LeavesTwice, HidesFailures, TriesAgain, ForgetsTheAnswer, CallsWithTheLock, WithoutALock,
    LeavesWithoutALock, ALockOfItsOwn, LooksThenCounts, CountsInTheCall, OneMore, TellsANameOfIt, nothing,
]  # fmt: skip


def joined(cores):
    return [cpu for core in cores for cpu in core]


def in_blocks(cores, members):
    ends = [len(cores) * n // members for n in range(members + 1)]
    return [sorted(cpu for core in cores[a:b] for cpu in core) for a, b in zip(ends, ends[1:])]  # noqa: RUF007


def cpus_like_cards(cores, members):
    cpus = sorted(cpu for core in cores for cpu in core)
    return [cpus[n::members] for n in range(members)]


def cpus_in_blocks(cores, members):
    cpus = sorted(cpu for core in cores for cpu in core)
    ends = [len(cpus) * n // members for n in range(members + 1)]
    return [cpus[a:b] for a, b in zip(ends, ends[1:])]  # noqa: RUF007


def first_threads_alone(cores, members):
    return cpu_sets([core[:1] for core in cores], members)


def the_last_has_the_rest(cores, members):
    each = len(cores) // members
    sets = [joined(cores[n * each : (n + 1) * each]) for n in range(members - 1)]
    return [*sets, joined(cores[(members - 1) * each :])]


def all_have_all(cores, members):
    return [joined(cores)] * members


def one_too_few(cores, members):
    return cpu_sets(cores, max(1, members - 1))


def leaves_out_the_last(cores, members):
    return cpu_sets(cores[:-1], members)


def numbers_of_cores(cores, members):
    return cpu_sets([[n] for n in range(len(cores))], members)


def as_many_cpus(cores, members):
    found = [[] for _ in range(members)]
    for core in cores:
        min(found, key=len).extend(core)
    return found


def texts(cores, members):
    return [",".join(map(str, each)) for each in cpu_sets(cores, members)]


WRONG_SETS = [
    cpus_like_cards, cpus_in_blocks, first_threads_alone, the_last_has_the_rest, all_have_all, one_too_few,
    leaves_out_the_last, numbers_of_cores, as_many_cpus, texts,
]  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("answer", [solved(LESSON, 1), Router], ids=["solved", "in parts"])
def test_right_routers_pass(answer, seed):
    check.run(LESSON, 1, answer, seed)


@pytest.mark.parametrize("answer", WRONG_ROUTERS)
def test_wrong_routers_are_refused(answer):
    """Answers learned by heart, and replays, are of functions; a router decides anew in each call."""
    with pytest.raises(CheckFailed) as refused:
        check.run(LESSON, 1, answer, 1)
    assert refused.value.rule.endswith(".") and refused.value.next_step


@pytest.mark.parametrize("answer", [ForgetsFailures, CountsExceptionsAlone])
def test_a_call_that_raised_and_is_still_inside_is_named(answer):
    with pytest.raises(CheckFailed, match=r"^Call \d+ raised, and still counts as inside member \d+\."):
        check.run(LESSON, 1, answer, 1)


@pytest.mark.parametrize(
    "answer, rule",
    [(CallsWithTheLock, "The lock is never held"), (ForgetsTheAnswer, "`run` returns"), (HidesFailures, "`run` returns")],
)
def test_the_rule_is_the_one_that_was_broken(answer, rule):
    with pytest.raises(CheckFailed) as refused:
        check.run(LESSON, 1, answer, 1)
    assert refused.value.rule.startswith(rule)


def test_blocks_of_cores_are_right_too():
    check.run(LESSON, 2, in_blocks, 1)


test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {2: (cpu_sets, WRONG_SETS)})

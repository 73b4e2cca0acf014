"""The checks of the lesson on updates against right answers and every kind of wrong one."""

import itertools
import threading
from typing import ClassVar

import numpy as np
import pytest
from wrong_answers import Replay, judge, named

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.checks.updates import Reference
from ctrlab.lessons.interleaving import Stuck, Threads, every_order

LESSON = "04_serving/03_updates"


class InLoops:
    """Right, in other words."""

    def __init__(self):
        self.after, self.taken = {}, 0

    def note(self, keys):
        for key in keys:
            self.after[int(key)] = self.taken

    def cut(self):
        self.taken += 1
        return np.int64(self.taken), np.array(sorted(self.after), np.int64)

    def confirm(self, number):
        for key in [key for key, last in self.after.items() if last < number]:
            del self.after[key]


class ForgetsAtTheCut(Reference):
    def cut(self):
        number, keys = super().cut()
        self.changed.clear()
        return number, keys


class ForgetsAllWhenConfirmed(Reference):
    def confirm(self, number):
        self.changed.clear()


class ForgetsTheCutsKeys(Reference):
    """Also those that have changed since."""

    def __init__(self):
        super().__init__()
        self.taken = {}

    def cut(self):
        number, keys = super().cut()
        self.taken[number] = keys
        return number, keys

    def confirm(self, number):
        for key in self.taken.get(number, ()):
            self.changed.pop(key, None)


class NeverForgets(Reference):
    def confirm(self, number):
        pass


class OffByOne(Reference):
    def confirm(self, number):
        super().confirm(number - 1)


class NotesTheFirstChange(Reference):
    def note(self, keys):
        self.changed = dict.fromkeys(keys, self.cuts) | self.changed


class TakesTheLastConfirmed(Reference):
    """Whatever is confirmed, everything before the last cut goes."""

    def confirm(self, number):
        super().confirm(self.cuts)


class NumbersWhatIsConfirmed(Reference):
    def __init__(self):
        super().__init__()
        self.confirmed = 0

    def cut(self):
        return self.confirmed + 1, super().cut()[1]

    def confirm(self, number):
        self.confirmed = number
        super().confirm(number)


class InAnyOrder(Reference):
    def cut(self):
        number, keys = super().cut()
        return number, keys[::-1]


class OneForAll(Reference):
    changed: ClassVar = {}

    def __init__(self):
        self.cuts = 0

    def note(self, keys):
        self.changed.update(dict.fromkeys(keys, self.cuts))

    def confirm(self, number):
        for key in [key for key, last in self.changed.items() if last < number]:
            del self.changed[key]


class KeepsEveryNote:
    def __init__(self):
        self.cuts, self.notes = 0, []

    def note(self, keys):
        self.notes += [(key, self.cuts) for key in keys]

    def cut(self):
        self.cuts += 1
        return self.cuts, sorted({key for key, _ in self.notes})

    def confirm(self, number):
        self.notes = [(key, last) for key, last in self.notes if last >= number]


class KeepsEveryCut(ForgetsTheCutsKeys):
    def confirm(self, number):
        Reference.confirm(self, number)


class EmptiesWhatItIsGiven(Reference):
    def note(self, keys):
        super().note(keys)
        keys.clear()


def says_nothing():
    log = Reference()
    log.cut = lambda: None
    return log


def says_text():
    log = Reference()
    log.cut = lambda: ("1", ["7"])
    return log


test_right_logs_pass, test_wrong_logs_are_refused = judge(
    LESSON,
    {
        1: (
            Reference,
            {
                ForgetsAtTheCut: "last confirmed cut",
                ForgetsAllWhenConfirmed: "last confirmed cut",
                ForgetsTheCutsKeys: "while their file is written",
                NeverForgets: "last confirmed cut",
                OffByOne: "last confirmed cut",
                NotesTheFirstChange: "last confirmed cut",
                TakesTheLastConfirmed: "last confirmed cut",
                NumbersWhatIsConfirmed: "numbered",
                InAnyOrder: "last confirmed cut",
                OneForAll: None,
                KeepsEveryNote: "Budget",
                KeepsEveryCut: "Budget",
                EmptiesWhatItIsGiven: "inputs",
                says_nothing: "number, keys",
                says_text: "whole numbers",
            },
        )
    },
)


class Gate:
    def __init__(self, condition):
        self.condition, self.inside, self.closed = condition, 0, False

    def enter(self):
        with self.condition:
            self.condition.wait_for(lambda: not self.closed)
            self.inside += 1

    def leave(self):
        with self.condition:
            self.inside -= 1
            self.condition.notify_all()

    def close(self):
        with self.condition:
            self.closed = True
            self.condition.wait_for(lambda: self.inside == 0)

    def open(self):
        with self.condition:
            self.closed = False
            self.condition.notify_all()


class WithWhile(Gate):
    """Right, in other words."""

    def enter(self):
        self.condition.acquire()
        while self.closed:
            self.condition.wait()
        self.inside += 1
        self.condition.release()

    def leave(self):
        with self.condition, self.condition:
            self.inside -= 1
            if not self.inside:
                self.condition.notify_all()


class NoGate(Gate):
    def enter(self):
        pass

    leave = close = open = enter


class OneAtATime(Gate):
    """A plain lock."""

    def enter(self):
        with self.condition:
            self.condition.wait_for(lambda: not self.closed)
            self.closed = True

    leave = Gate.open
    close = enter


class UpdateStarves(Gate):
    """The update closes the gate only when nobody is inside."""

    def close(self):
        with self.condition:
            self.condition.wait_for(lambda: self.inside == 0)
            self.closed = True


class DoesNotWaitForRequests(Gate):
    def close(self):
        with self.condition:
            self.closed = True


class DoesNotStopRequests(Gate):
    def enter(self):
        with self.condition:
            self.inside += 1


class WaitsOnce(Gate):
    """After a wake-up it does not look again."""

    def enter(self):
        with self.condition:
            if self.closed:
                self.condition.wait()
            self.inside += 1


class UpdateWaitsOnce(Gate):
    def close(self):
        with self.condition:
            self.closed = True
            if self.inside:
                self.condition.wait()


class WakesOne(Gate):
    def open(self):
        with self.condition:
            self.closed = False
            self.condition.notify()


class WakesNobody(Gate):
    def leave(self):
        with self.condition:
            self.inside -= 1


class OpensForNobody(Gate):
    def open(self):
        with self.condition:
            self.closed = False


class StaysClosed(Gate):
    def open(self):
        with self.condition:
            self.condition.notify_all()


class LooksThenCounts(Gate):
    """Somebody may come between the two."""

    def enter(self):
        with self.condition:
            self.condition.wait_for(lambda: not self.closed)
        with self.condition:
            self.inside += 1


class CountsWithoutTheCondition(Gate):
    def leave(self):
        self.inside -= 1
        with self.condition:
            self.condition.notify_all()


class OpensWithoutTheCondition(Gate):
    def open(self):
        self.closed = False
        with self.condition:
            self.condition.notify_all()


class NotifiesWithoutTheCondition(Gate):
    def open(self):
        with self.condition:
            self.closed = False
        self.condition.notify_all()


class WaitsForATime(Gate):
    def enter(self):
        with self.condition:
            self.condition.wait_for(lambda: not self.closed, timeout=1)
            self.inside += 1


class Spins(Gate):
    def enter(self):
        while self.closed:
            pass
        super().enter()


class ALockOfItsOwn(Gate):
    def __init__(self, condition):
        super().__init__(condition)
        self.lock = threading.Lock()

    def enter(self):
        self.lock.acquire()

    leave = open = lambda self: self.lock.release()
    close = enter


class HoldsTheConditionInside(Gate):
    def enter(self):
        self.condition.acquire()

    close = enter
    leave = open = lambda self: self.condition.release()


class TakesOneRequest(Gate):
    """Requests that wait go one by one."""

    def enter(self):
        with self.condition:
            self.condition.wait_for(lambda: not self.closed and self.inside < 1)
            self.inside += 1


class CountsUpdates(Gate):
    """Off by one: after an update it is closed for ever."""

    def close(self):
        with self.condition:
            self.closed += 2
            self.condition.wait_for(lambda: self.inside == 0)

    def open(self):
        with self.condition:
            self.closed -= 1
            self.condition.notify_all()


WRONG = {
    NoGate: "update waits until|mixes",
    OneAtATime: "Requests do not wait for each other",
    UpdateStarves: "never starves",
    DoesNotWaitForRequests: "every request inside has left",
    DoesNotStopRequests: "waits while an update is inside",
    WaitsOnce: "never starves|mixes",
    UpdateWaitsOnce: "every request inside has left",
    WakesOne: "notify_all",
    WakesNobody: "every request inside has left",
    OpensForNobody: "notify_all",
    StaysClosed: "notify_all",
    LooksThenCounts: "mixes",
    CountsWithoutTheCondition: "only while the condition is held",
    OpensWithoutTheCondition: "only while the condition is held",
    NotifiesWithoutTheCondition: "cannot notify",
    WaitsForATime: "timeout",
    Spins: "waits by the condition",
    ALockOfItsOwn: "waits by the condition",
    HoldsTheConditionInside: "Requests do not wait",
    TakesOneRequest: "Requests do not wait",
    CountsUpdates: "request",
    Replay(Gate): "made for others",
    (lambda condition: None): "AttributeError",
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("answer", [Gate, WithWhile])
def test_right_gates_pass(answer, seed):
    check.run(LESSON, 2, answer, seed)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("answer", WRONG, ids=named)
def test_wrong_gates_are_refused(answer, seed, monkeypatch):
    monkeypatch.setattr("ctrlab.lessons.interleaving.PATIENCE", 0.5)
    before = threading.active_count()
    with pytest.raises(CheckFailed, match=WRONG[answer]) as refused:
        check.run(LESSON, 2, answer, seed)
    assert refused.value.rule.endswith(".") and refused.value.next_step
    while threading.active_count() > before + (answer is ALockOfItsOwn):  # a thread in a lock can't be unwound
        pass


@pytest.mark.parametrize("seed", range(3))
def test_a_log_in_another_way_passes(seed):
    check.run(LESSON, 1, InLoops, seed)


def orders(bodies):
    """What each order of threads that note their name at each point comes to."""
    seen = []

    def run(choose):
        with Threads() as threads:
            for name, points in bodies.items():
                threads.start(name, lambda points=points: [threads.pause() for _ in range(points)])
            while names := threads.can_go():
                threads.go(choose(names))
            seen.append("".join(threads.order))

    for _ in every_order(run):
        pass
    return seen


def test_every_order_is_tried_once():
    assert sorted(orders({"a": 1, "b": 2})) == sorted({"".join(p) for p in itertools.permutations("aabbb")})


def test_a_thread_that_comes_to_no_point_is_told_of(monkeypatch):
    monkeypatch.setattr("ctrlab.lessons.interleaving.PATIENCE", 0.1)
    with Threads() as threads:
        threads.start("spins", lambda: [None for _ in itertools.count()])
        with pytest.raises(Stuck, match="spins"):
            threads.go("spins")

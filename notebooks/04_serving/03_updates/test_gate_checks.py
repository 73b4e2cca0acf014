"""The check of the gate, in the lesson on updates, against right answers and every kind of wrong one."""

import threading

import pytest
from solved import solved
from wrong_answers import Replay, named, require_told

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed

LESSON = "04_serving/03_updates"
Gate = solved(LESSON, 2)


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


class SpinsWithTheCondition(Gate):
    def enter(self):
        while True:
            with self.condition:
                if not self.closed:
                    self.inside += 1
                    return


class UpdateSpinsWithTheCondition(Gate):
    def close(self):
        with self.condition:
            self.closed = True
        while True:
            with self.condition:
                if self.inside == 0:
                    return


class LetsGoInALoop(Gate):
    def close(self):
        with self.condition:
            self.closed = True
            while self.inside:
                self.condition.release()
                self.condition.acquire()


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

    most = 1

    def enter(self):
        with self.condition:
            self.condition.wait_for(lambda: not self.closed and self.inside < self.most)
            self.inside += 1


class TakesThree(TakesOneRequest):
    most = 3


class TakesSixtyFour(TakesOneRequest):
    most = 64


class CountsToFour(Gate):
    """With more inside it says too early that nobody is."""

    def leave(self):
        with self.condition:
            self.inside = max(0, min(self.inside, 4) - 1)
            self.condition.notify_all()


class LaterUpdatesStarve(Gate):
    """Later requests wait behind the first update, and go before all others."""

    before = 1

    def __init__(self, condition):
        super().__init__(condition)
        self.active, self.opened = False, 0

    def enter(self):
        with self.condition:
            self.condition.wait_for(lambda: not self.active and not (self.opened < self.before and self.closed))
            self.inside += 1

    def close(self):
        with self.condition:
            self.closed = True
            self.condition.wait_for(lambda: self.inside == 0)
            self.active = True

    def open(self):
        with self.condition:
            self.closed = self.active = False
            self.opened += 1
            self.condition.notify_all()


class FourthUpdateStarves(LaterUpdatesStarve):
    before = 3


class FourthUpdateDoesNotWait(Gate):
    updates = 0

    def close(self):
        with self.condition:
            self.closed = True
            self.updates += 1
            self.condition.wait_for(lambda: self.inside == 0 or self.updates > 3)


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
    SpinsWithTheCondition: "(?s)waits by the condition.*no loop that only looks",
    UpdateSpinsWithTheCondition: "(?s)waits by the condition.*no loop that only looks",
    LetsGoInALoop: "(?s)waits by the condition.*no loop that only looks",
    ALockOfItsOwn: "waits by the condition",
    HoldsTheConditionInside: "Requests do not wait",
    TakesOneRequest: "Requests do not wait",
    TakesThree: "Requests do not wait",
    TakesSixtyFour: "Requests do not wait",
    CountsToFour: "every request inside has left",
    LaterUpdatesStarve: "never starves",
    FourthUpdateStarves: "never starves",
    FourthUpdateDoesNotWait: "the update: waits",
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
    if answer in (Spins, ALockOfItsOwn):
        monkeypatch.setattr("ctrlab.lessons.interleaving.PATIENCE", 0.5)
    before = threading.active_count()
    with pytest.raises(CheckFailed) as refused:
        check.run(LESSON, 2, answer, seed)
    require_told(refused.value, WRONG[answer])
    while threading.active_count() > before + (answer is ALockOfItsOwn):  # a thread in a lock can't be unwound
        pass

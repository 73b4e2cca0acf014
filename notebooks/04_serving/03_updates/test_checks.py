"""The check of the log of changes, in the lesson on updates, against right answers and every kind of wrong one."""

import re
from typing import ClassVar

import numpy as np
import pytest
from ctrlab.lessons.topics.updates.checks import Reference
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed

LESSON = "04_serving/03_updates"
ChangeLog = solved(LESSON, 1)


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


class InTuples(ChangeLog):
    def cut(self):
        number, keys = super().cut()
        return number, tuple(keys)


class OneListForAllCuts(ChangeLog):
    """A file that is still being written gets the next cut's keys."""

    def __init__(self):
        super().__init__()
        self.keys = []

    def cut(self):
        number, self.keys[:] = super().cut()
        return number, self.keys


class ForgetsAtTheCut(ChangeLog):
    def cut(self):
        number, keys = super().cut()
        self.changed.clear()
        return number, keys


class ForgetsAllWhenConfirmed(ChangeLog):
    def confirm(self, number):
        self.changed.clear()


class ForgetsTheCutsKeys(ChangeLog):
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


class NeverForgets(ChangeLog):
    def confirm(self, number):
        pass


class OffByOne(ChangeLog):
    def confirm(self, number):
        super().confirm(number - 1)


class NotesTheFirstChange(ChangeLog):
    def note(self, keys):
        self.changed = dict.fromkeys(keys, self.cuts) | self.changed


class TakesTheLastConfirmed(ChangeLog):
    """Whatever is confirmed, everything before the last cut goes."""

    def confirm(self, number):
        super().confirm(self.cuts)


class NumbersWhatIsConfirmed(ChangeLog):
    def __init__(self):
        super().__init__()
        self.confirmed = 0

    def cut(self):
        return self.confirmed + 1, super().cut()[1]

    def confirm(self, number):
        self.confirmed = number
        super().confirm(number)


class InAnyOrder(ChangeLog):
    def cut(self):
        number, keys = super().cut()
        return number, keys[::-1]


class OneForAll(ChangeLog):
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
        ChangeLog.confirm(self, number)


class KeepsWhatIsConfirmed(ChangeLog):
    """Right cuts, of a log that grows to the whole table."""

    def __init__(self):
        super().__init__()
        self.done = 0

    def cut(self):
        self.cuts += 1
        return self.cuts, sorted(key for key, last in self.changed.items() if last >= self.done)

    def confirm(self, number):
        self.done = max(self.done, number)


class DisjointSets:
    """Each key is in one set, and an empty set that was large keeps its memory."""

    def __init__(self):
        self.sets = [set()]

    def note(self, keys):
        for older in self.sets:
            older.difference_update(keys)
        self.sets[-1].update(keys)

    def cut(self):
        self.sets.append(set())
        return len(self.sets) - 1, sorted(set().union(*self.sets))

    def confirm(self, number):
        self.sets[:number] = [set()] * number


class LeavesOutKeyZero(ChangeLog):
    def note(self, keys):
        super().note([key for key in keys if key])


class Twice(ChangeLog):
    def cut(self):
        number, keys = super().cut()
        return number, sorted(keys + keys[:1])


class Iterates(ChangeLog):
    def cut(self):
        number, keys = super().cut()
        return number, iter(keys)


class EmptiesWhatItIsGiven(ChangeLog):
    def note(self, keys):
        super().note(keys)
        keys.clear()


class SortsWhatItIsGiven(ChangeLog):
    def note(self, keys):
        keys.sort()
        super().note(keys)


def says_nothing():
    log = ChangeLog()
    log.cut = lambda: None
    return log


def says_text():
    log = ChangeLog()
    log.cut = lambda: ("1", ["7"])
    return log


test_right_logs_pass, test_wrong_logs_are_refused = judge(
    LESSON,
    {
        1: (
            ChangeLog,
            {
                OneListForAllCuts: "stay as they are",
                ForgetsAtTheCut: "last confirmed cut",
                ForgetsAllWhenConfirmed: "last confirmed cut",
                ForgetsTheCutsKeys: "while their file is written",
                NeverForgets: "last confirmed cut",
                OffByOne: "last confirmed cut",
                NotesTheFirstChange: "last confirmed cut",
                TakesTheLastConfirmed: "last confirmed cut",
                NumbersWhatIsConfirmed: "numbered",
                InAnyOrder: "ascend",
                Twice: "each once",
                Iterates: "list_iterator",
                LeavesOutKeyZero: "look at 0",
                OneForAll: None,
                KeepsEveryNote: "Budget",
                KeepsEveryCut: "Budget",
                KeepsWhatIsConfirmed: "(?s)Budget.*new keys",
                DisjointSets: "(?s)does not grow while the disk refuses.*200,000 bytes.*nothing per cut",
                EmptiesWhatItIsGiven: "caller's list",
                SortsWhatItIsGiven: "caller's list",
                says_nothing: "number, keys",
                says_text: "whole numbers",
            },
        )
    },
)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("answer", [InLoops, InTuples, Reference])
def test_a_log_in_another_way_passes(answer, seed):
    check.run(LESSON, 1, answer, seed)


def test_a_refusal_of_the_order_names_the_first_key_that_is_out_of_it():
    with pytest.raises(CheckFailed) as refused:
        check.run(LESSON, 1, InAnyOrder, 1)
    received = str(refused.value.received)
    keys = [int(key) for key in re.findall(r"-?\d+", received.partition("]")[0])]
    assert received.endswith(f"; look at {keys[1]}, after {keys[0]}")


def test_a_refusal_of_a_changed_list_shows_the_list():
    with pytest.raises(CheckFailed) as refused:
        check.run(LESSON, 1, SortsWhatItIsGiven, 1)
    assert refused.value.expected != refused.value.received == sorted(refused.value.expected)
    assert "sorted(keys)" in refused.value.next_step

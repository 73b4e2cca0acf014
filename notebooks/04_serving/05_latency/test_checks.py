"""The check of the open loop in the lesson on latency, against right answers and every kind of wrong one."""

import math

import numpy as np
import pytest
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check
from ctrlab.load.queueing import NEVER

LESSON = "04_serving/05_latency"

open_loop = solved(LESSON, 1)


class Changed:
    """A line of which one thing is done in another way."""

    def __init__(self, line):
        self.line = line

    def __getattr__(self, name):
        return getattr(self.line, name)


def no_op(due, line):
    return ()


def returns_nothing(due, line):
    pass


def yields_latencies_alone(due, line):
    for _, latency in open_loop(due, line):
        yield latency


def replays_the_last_run(due, line):
    """It sends, and tells what came of the schedule before."""
    now = list(open_loop(due, line))
    before, replays_the_last_run.last = getattr(replays_the_last_run, "last", now), now
    yield from before


def constant(due, line):
    for number, _ in open_loop(due, line):
        yield number, 99


def closed_loop(due, line):
    for number, moment in enumerate(due):
        line.wait(moment)
        begun = line.now()
        line.send(number)
        ((_, at),) = line.wait(NEVER)
        yield number, at - begun


def from_due_but_closed(due, line):
    for number, moment in enumerate(due):
        line.wait(moment)
        line.send(number)
        ((_, at),) = line.wait(NEVER)
        yield number, at - moment


def from_when_it_was_sent(due, line):
    sent = {}

    class Notes(Changed):
        def send(self, number):
            sent[number] = self.line.now()
            self.line.send(number)

    for number, latency in open_loop(due, Notes(line)):
        yield number, latency + due[number] - sent[number]


def until_it_was_noticed(due, line):
    for number, _ in open_loop(due, line):
        yield number, line.now() - due[number]


def in_order_of_answers(due, line):
    for place, (_, latency) in enumerate(open_loop(due, line)):
        yield place, latency


def due_of_the_next_answer(due, line):
    """Takes answers to come in the order of requests."""
    for place, (number, latency) in enumerate(open_loop(due, line)):
        yield number, latency + due[number] - due[place]


def sends_as_soon_as_it_wakes(due, line):
    """Takes the end of a wait for the time at which the next is due."""
    answered = 0
    for sent in range(len(due)):
        for number, at in line.wait(due[sent]):
            yield number, at - due[number]
            answered += 1
        line.send(sent)
    while answered < len(due):
        for number, at in line.wait(NEVER):
            yield number, at - due[number]
            answered += 1


def forgets_who_is_inside_at_the_end(due, line):
    sent = 0
    while sent < len(due):
        while sent < len(due) and due[sent] <= line.now():
            line.send(sent)
            sent += 1
        for number, at in line.wait(due[sent] if sent < len(due) else line.now()):
            yield number, at - due[number]


def leaves_out_refused(due, line):
    for number, latency in open_loop(due, line):
        if latency < math.inf:
            yield number, latency


def refused_at_once(due, line):
    for number, latency in open_loop(due, line):
        yield number, latency if latency < math.inf else 0


def leaves_out_the_stall(due, line):
    """As outliers."""
    for number, latency in open_loop(due, line):
        yield number, min(latency, 10_000)


def one_of_those_that_came(due, line):
    class First(Changed):
        def wait(self, until):
            return self.line.wait(until)[:1]

    try:
        yield from open_loop(due, First(line))
    except Exception:
        return


def only_one_that_is_due(due, line):
    """One is sent per wake, and the others of that moment wait for the next answer."""
    sent = answered = 0
    while answered < len(due):
        if sent < len(due) and due[sent] <= line.now():
            line.send(sent)
            sent += 1
        until = due[sent] if sent < len(due) and due[sent] > line.now() else NEVER
        for number, at in line.wait(until):
            yield number, at - due[number]
            answered += 1


def later_than_due(due, line):
    """`<` in place of `<=`: what is due now is sent a microsecond later."""
    sent = answered = 0
    while answered < len(due):
        while sent < len(due) and due[sent] < line.now():
            line.send(sent)
            sent += 1
        for number, at in line.wait(due[sent] + 1 if sent < len(due) else NEVER):
            yield number, at - due[number]
            answered += 1


def all_at_once(due, line):
    for number in range(len(due)):
        line.send(number)
    answered = 0
    while answered < len(due):
        for number, at in line.wait(NEVER):
            yield number, at - due[number]
            answered += 1


def polls(due, line):
    """It never sleeps."""

    class Busy(Changed):
        def wait(self, until):
            for _ in range(10):
                self.line.wait(self.line.now())
            return self.line.wait(until)

    yield from open_loop(due, Busy(line))


def twice(due, line):
    for number, latency in open_loop(due, line):
        yield number, latency
        yield number, latency


def off_by_one(due, line):
    for number, latency in open_loop(due, line):
        yield number, latency + 1


def in_milliseconds(due, line):
    for number, latency in open_loop(due, line):
        yield number, latency / 1_000


def in_float32(due, line):
    for number, latency in open_loop(due, line):
        yield number, float(np.float32(latency))


def as_words(due, line):
    for number, latency in open_loop(due, line):
        yield number, str(latency)


def takes_them_off(due, line):
    whole = list(due)
    yield from open_loop(whole, line)
    due.clear()


def needs_a_request(due, line):
    assert due[0] >= 0
    yield from open_loop(due, line)


LOOPS = dict.fromkeys((
    constant, from_when_it_was_sent, until_it_was_noticed, in_order_of_answers, due_of_the_next_answer,
    forgets_who_is_inside_at_the_end, refused_at_once, leaves_out_the_stall, one_of_those_that_came, only_one_that_is_due,
    off_by_one, in_milliseconds, in_float32, as_words, replays_the_last_run,
)) | {
    no_op: "it was never sent",
    returns_nothing: "TypeError",
    yields_latencies_alone: "returns number, latency",
    closed_loop: None,
    from_due_but_closed: None,
    sends_as_soon_as_it_wakes: "whether or not(.|\n)*line.now",
    leaves_out_refused: "a refused one is endless(.|\n)*it was not yielded",
    later_than_due: "is sent when it is due",
    all_at_once: "is sent when it is due",
    polls: "sleeps until something happens",
    twice: "again",
    takes_them_off: "leaves its inputs as they were",
    needs_a_request: "no request",
}  # fmt: skip
test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {1: (open_loop, LOOPS)})


def one_per_wait(due, line):
    """It waits once per request and per answer."""
    left, sent = len(due), 0
    while left:
        if sent < len(due) and line.now() >= due[sent]:
            line.send(sent)
            sent += 1
            came = line.wait(line.now())
        else:
            came = line.wait(due[sent] if sent < len(due) else NEVER)
        for number, at in came:
            yield number, at - due[number]
            left -= 1


@pytest.mark.parametrize("seed", range(3))
def test_another_right_answer_passes(seed):
    check.run(LESSON, 1, one_per_wait, seed)

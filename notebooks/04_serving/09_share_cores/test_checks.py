"""The checks of the lesson on sharing cores against right answers and every kind of wrong one."""

import heapq
import math

import numpy as np
import pytest
from ctrlab.lessons.topics.share_cores.checks import Counted, reference_latencies
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check

LESSON = "04_serving/09_share_cores"
latencies, main_cores = solved(LESSON, 1), solved(LESSON, 2)


def as_array(due, service, cores):
    return np.array(latencies(due, service, cores))


def by_popping(due, service, cores):
    free, took = [0] * cores, []
    for at, work in zip(due, service):
        begin = heapq.heappop(free)
        begin = at if begin < at else begin
        heapq.heappush(free, begin + work)
        took.append(begin + work - at)
    return took


@pytest.mark.parametrize("answer", [as_array, by_popping])
def test_other_right_queues_pass(answer):
    check.run(LESSON, 1, answer, 3)


def test_a_counted_moment_counts_and_is_a_number():
    Counted.compared = 0
    a, b = Counted(3), Counted(5)
    assert max(a, b) == 5 and a < b and not a >= b and Counted.compared == 3
    assert type(a + b) is Counted is type(1 + a) is type(b - 1) is type(9 - a) and a + b == 8 and 9 - a == 6


def constant(due, service, cores):
    return [60] * len(due)


def looks_at_every_core(due, service, cores):
    return reference_latencies(due, service, cores)


def sorts_the_cores(due, service, cores):
    free, took = [0] * cores, []
    for at, work in zip(due, service):
        ends = max(at, free[0]) + work
        free[0] = ends
        free = sorted(free, key=lambda each: each + at)
        took.append(ends - at)
    return took


def from_its_begin(due, service, cores):
    return list(service)


def waits_alone(due, service, cores):
    return [took - work for took, work in zip(latencies(due, service, cores), service)]


def moments(due, service, cores):
    return [took + at for took, at in zip(latencies(due, service, cores), due)]


def before_it_is_due(due, service, cores):
    free, took = [0] * cores, []
    for at, work in zip(due, service):
        ends = free[0] + work
        heapq.heapreplace(free, ends)
        took.append(ends - at)
    return took


def round_robin(due, service, cores):
    free, took = [0] * cores, []
    for number, (at, work) in enumerate(zip(due, service)):
        core = number % cores
        free[core] = max(at, free[core]) + work
        took.append(free[core] - at)
    return took


def one_core(due, service, cores):
    return latencies(due, service, 1)


def one_core_more(due, service, cores):
    return latencies(due, service, cores + 1)


def always_two_cores(due, service, cores):
    return latencies(due, service, 2)


def in_order_of_answers(due, service, cores):
    took = latencies(due, service, cores)
    return [took[n] for n in sorted(range(len(due)), key=lambda n: due[n] + took[n])]


def last_come_first(due, service, cores):
    return latencies(due[::-1], service[::-1], cores)[::-1]


def in_whole_tens(due, service, cores):
    return [round(took, -1) for took in latencies(due, service, cores)]


def leaves_out_the_last(due, service, cores):
    return latencies(due, service, cores)[:-1]


WRONG_QUEUES = [
    constant, looks_at_every_core, sorts_the_cores, from_its_begin, waits_alone, moments, before_it_is_due,
    round_robin, one_core, one_core_more, always_two_cores, in_order_of_answers, last_come_first, in_whole_tens,
    leaves_out_the_last,
]  # fmt: skip


def linear(p99, limit, busy, cores):
    return next((n for n in range(1, cores) if cores - n > busy and p99(n) <= limit), None)


def from_above(p99, limit, busy, cores):
    n = min(cores - 1, math.ceil(cores - busy) - 1)
    if n < 1 or p99(n) > limit:
        return None
    while n > 1 and p99(n - 1) <= limit:
        n -= 1
    return n


def asks_once_more(p99, limit, busy, cores):
    found = main_cores(p99, limit, busy, cores)
    if found:
        p99(found)
    return found


def forgets_the_others(p99, limit, busy, cores):
    return main_cores(p99, limit, 0.0, cores)


def the_others_may_be_all_busy(p99, limit, busy, cores):
    return main_cores(p99, limit, max(0.0, busy - 1e-9), cores)


def rounds_the_others_up(p99, limit, busy, cores):
    return main_cores(p99, limit, math.ceil(busy), cores)


def rounds_the_others_down(p99, limit, busy, cores):
    return main_cores(p99, limit, max(0.0, math.floor(busy) - 0.5), cores)


def the_limit_itself_is_too_late(p99, limit, busy, cores):
    return main_cores(p99, math.nextafter(limit, 0), busy, cores)


def gives_what_there_is(p99, limit, busy, cores):
    found = main_cores(p99, limit, busy, cores)
    return cores - 1 if found is None else found


def zero_for_none(p99, limit, busy, cores):
    return main_cores(p99, limit, busy, cores) or 0


def one_more(p99, limit, busy, cores):
    found = main_cores(p99, limit, busy, cores)
    return found and min(found + 1, cores - 1)


def one_fewer(p99, limit, busy, cores):
    found = main_cores(p99, limit, busy, cores)
    return found and max(found - 1, 1)


def the_whole_machine_too(p99, limit, busy, cores):
    found = main_cores(p99, limit, busy, cores)
    return cores if found is None and busy == 0 and p99.p99[-1] <= limit else found


def in_proportion(p99, limit, busy, cores):
    return max(1, cores - math.ceil(busy))


def half(p99, limit, busy, cores):
    return cores // 2


WRONG_RULES = [
    linear, from_above, asks_once_more, forgets_the_others, the_others_may_be_all_busy, rounds_the_others_up,
    rounds_the_others_down, the_limit_itself_is_too_late, gives_what_there_is, zero_for_none, one_more, one_fewer,
    the_whole_machine_too, in_proportion, half,
]  # fmt: skip


QUEUES = dict.fromkeys(WRONG_QUEUES) | {in_order_of_answers: "the right numbers in another order"}
RULES = dict.fromkeys(WRONG_RULES) | {asks_once_more: "each n once", the_limit_itself_is_too_late: r"p99\(1\) is"}
test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {1: (latencies, QUEUES), 2: (main_cores, RULES)})

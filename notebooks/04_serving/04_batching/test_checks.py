"""The checks of the lesson on batching against right answers and every kind of wrong one, and the simulated server."""

import itertools

import numpy as np
import pytest
from ctrlab.lessons.topics.batching.checks import reference_admit, reference_leave
from ctrlab.lessons.topics.batching.queueing import NEVER, Cost, Request, poisson, simulate
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check

LESSON = "04_serving/04_batching"
leave, admit = solved(LESSON, 1), solved(LESSON, 2)


def everybody(waiting, now, most_rows, most_wait):
    return len(waiting)


def one(waiting, now, most_rows, most_wait):
    return min(1, len(waiting))


def does_not_wait(waiting, now, most_rows, most_wait):
    return leave(waiting, now, most_rows, 0)


def waits_for_a_full_batch(waiting, now, most_rows, most_wait):
    return leave(waiting, now, most_rows, NEVER)


def mixes_versions(waiting, now, most_rows, most_wait):
    return leave([request._replace(version=1) for request in waiting], now, most_rows, most_wait)


def counts_requests(waiting, now, most_rows, most_wait):
    return leave([request._replace(rows=1) for request in waiting], now, most_rows, most_wait)


def off_by_a_row(waiting, now, most_rows, most_wait):
    return leave(waiting, now, most_rows + 1, most_wait)


def off_by_a_microsecond(waiting, now, most_rows, most_wait):
    return leave(waiting, now - 1, most_rows, most_wait)


def keeps_what_is_closed(waiting, now, most_rows, most_wait):
    """It waits although nobody can join."""
    count = leave(waiting, now, most_rows, 0)
    full = sum(request.rows for request in waiting[:count]) >= most_rows
    return count if full or (waiting and now - waiting[0].arrived >= most_wait) else 0


def skips_the_large(waiting, now, most_rows, most_wait):
    """Takes a small one from behind a large one."""
    rows = np.cumsum([request.rows for request in waiting])
    return max(
        leave(waiting, now, most_rows, most_wait), int(np.sum(rows <= most_rows)) if len(rows) and rows[-1] > most_rows else 0
    )


def looks_at_the_youngest(waiting, now, most_rows, most_wait):
    late = [request._replace(arrived=waiting[-1].arrived) for request in waiting]
    return leave(late, now, most_rows, most_wait)


def starves_the_large(waiting, now, most_rows, most_wait):
    return 0 if waiting and waiting[0].rows > most_rows else leave(waiting, now, most_rows, most_wait)


def sees_the_first(most):
    """Right where no more wait."""

    def answer(waiting, now, most_rows, most_wait):
        return leave(waiting[:most], now, most_rows, most_wait)

    answer.__name__ = f"sees_the_first_{most}"
    return answer


def compares_versions_by_identity(waiting, now, most_rows, most_wait):
    """Right of small numbers, of which Python keeps one object each."""
    same = [request.version is waiting[0].version for request in waiting]
    return leave([request._replace(version=fits) for request, fits in zip(waiting, same)], now, most_rows, most_wait)


def takes_them_out(waiting, now, most_rows, most_wait):
    count = leave(waiting, now, most_rows, most_wait)
    del waiting[:count]
    return count


def sorts_them(waiting, now, most_rows, most_wait):
    count = leave(waiting, now, most_rows, most_wait)
    waiting.sort(key=lambda request: request.rows)
    return count


def fails_where_nobody_waits(waiting, now, most_rows, most_wait):
    return leave(waiting, now, most_rows, most_wait) if waiting[0] else 0


def says_whether(waiting, now, most_rows, most_wait):
    return bool(leave(waiting, now, most_rows, most_wait))


def says_a_float(waiting, now, most_rows, most_wait):
    return float(leave(waiting, now, most_rows, most_wait))


def takes_none(request, waiting, busy_until, cost, most_waiting):
    return False


def only_the_bound(request, waiting, busy_until, cost, most_waiting):
    return len(waiting) < most_waiting


def only_the_deadline(request, waiting, busy_until, cost, most_waiting):
    return admit(request, waiting, busy_until, cost, len(waiting) + 1)


def one_place_more(request, waiting, busy_until, cost, most_waiting):
    return admit(request, waiting, busy_until, cost, most_waiting + 1)


def in_time_is_too_late(request, waiting, busy_until, cost, most_waiting):
    return admit(request._replace(deadline=request.deadline - 1), waiting, busy_until, cost, most_waiting)


def forgets_itself(request, waiting, busy_until, cost, most_waiting):
    return admit(request._replace(deadline=request.deadline + cost(request.rows)), waiting, busy_until, cost, most_waiting)


def forgets_who_waits(request, waiting, busy_until, cost, most_waiting):
    return len(waiting) < most_waiting and admit(request, (), busy_until, cost, most_waiting)


def forgets_the_call(request, waiting, busy_until, cost, most_waiting):
    return admit(request, waiting, request.arrived, cost, most_waiting)


def counts_from_the_past(request, waiting, busy_until, cost, most_waiting):
    """An idle server was free before the request came."""
    starts = busy_until + sum(cost(other.rows) for other in waiting)
    return len(waiting) < most_waiting and starts + cost(request.rows) <= request.deadline


def as_one_batch(request, waiting, busy_until, cost, most_waiting):
    rows = sum(other.rows for other in waiting) + request.rows
    return len(waiting) < most_waiting and max(request.arrived, busy_until) + cost(rows) <= request.deadline


def all_of_its_size(request, waiting, busy_until, cost, most_waiting):
    starts = max(request.arrived, busy_until) + len(waiting) * cost(request.rows)
    return len(waiting) < most_waiting and starts + cost(request.rows) <= request.deadline


def late_ones_take_no_place(request, waiting, busy_until, cost, most_waiting):
    alive = [other for other in waiting if other.deadline > request.arrived]
    return len(alive) < most_waiting and admit(request, waiting, busy_until, cost, len(waiting) + 1)


def late_ones_take_no_time(request, waiting, busy_until, cost, most_waiting):
    alive = [other for other in waiting if other.deadline >= request.arrived]
    return len(waiting) < most_waiting and admit(request, alive, busy_until, cost, most_waiting)


def skips_who_will_be_late(request, waiting, busy_until, cost, most_waiting):
    at = max(request.arrived, busy_until)
    for other in waiting:
        at += cost(other.rows) if at + cost(other.rows) <= other.deadline else 0
    return len(waiting) < most_waiting and at + cost(request.rows) <= request.deadline


def takes_none_behind_one_who_will_be_late(request, waiting, busy_until, cost, most_waiting):
    at = max(request.arrived, busy_until)
    for other in waiting:
        at += cost(other.rows)
        if at > other.deadline:
            return False
    return admit(request, waiting, busy_until, cost, most_waiting)


def takes_none_behind_one_who_is_late(request, waiting, busy_until, cost, most_waiting):
    late = any(other.deadline < request.arrived for other in waiting)
    return not late and admit(request, waiting, busy_until, cost, most_waiting)


def joins_the_queue(request, waiting, busy_until, cost, most_waiting):
    waiting.append(request)
    return admit(request, waiting[:-1], busy_until, cost, most_waiting)


def fails_where_nobody_is_ahead(request, waiting, busy_until, cost, most_waiting):
    return admit(request, waiting, busy_until, cost, most_waiting) and waiting[0].rows > 0


def says_a_status(request, waiting, busy_until, cost, most_waiting):
    return 200 if admit(request, waiting, busy_until, cost, most_waiting) else 429


LEAVES = dict.fromkeys((
    everybody, one, does_not_wait, waits_for_a_full_batch, mixes_versions, counts_requests, off_by_a_row,
    off_by_a_microsecond, keeps_what_is_closed, skips_the_large, looks_at_the_youngest, starves_the_large, says_whether,
    says_a_float, sees_the_first(8), sees_the_first(16), sees_the_first(32), compares_versions_by_identity,
)) | {
    takes_them_out: "leaves its inputs as they were",
    sorts_them: "leaves its inputs as they were",
    fails_where_nobody_waits: "nobody waits(.|\n)*IndexError(.|\n)*nobody may wait",
}  # fmt: skip
ADMITS = dict.fromkeys((
    takes_none, only_the_bound, only_the_deadline, one_place_more, in_time_is_too_late, forgets_itself,
    forgets_who_waits, forgets_the_call, counts_from_the_past, as_one_batch, all_of_its_size, says_a_status,
)) | {
    late_ones_take_no_place: "late(.|\n)*late or not",
    late_ones_take_no_time: "late or not",
    skips_who_will_be_late: "late or not",
    takes_none_behind_one_who_will_be_late: None,
    takes_none_behind_one_who_is_late: None,
    joins_the_queue: "leaves its inputs as they were",
    fails_where_nobody_is_ahead: "IndexError(.|\n)*nobody may wait",
}  # fmt: skip
test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {1: (leave, LEAVES), 2: (admit, ADMITS)})


def pops_a_copy(waiting, now, most_rows, most_wait):
    left, batch = waiting.copy(), []
    while left and (not batch or (left[0].version == batch[0].version and sum(r.rows for r in [*batch, left[0]]) <= most_rows)):
        batch.append(left.pop(0))
    full = left or sum(r.rows for r in batch) >= most_rows
    return len(batch) if batch and (full or now - batch[0].arrived >= most_wait) else 0


def with_itself(request, waiting, busy_until, cost, most_waiting):
    ends = max(request.arrived, busy_until) + sum(cost(other.rows) for other in waiting + [request])  # noqa: RUF005 - as learners write it
    return len(waiting) < most_waiting and ends <= request.deadline


@pytest.mark.parametrize("exercise, answer", [(1, reference_leave), (2, reference_admit), (1, pops_a_copy), (2, with_itself)])
def test_other_right_answers_pass(exercise, answer):
    check.run(LESSON, exercise, answer)


COST = Cost(100, 10)


def test_each_alone_queues_up():
    served = simulate([Request(0), Request(0, 2), Request(1_000)], COST)
    assert served.took == [110, 230, 110] and served.calls == 3 and served.ends == 1_110 and served.in_time == 3


def test_a_batch_waits_for_its_time_or_is_full():
    pair, late = [Request(0), Request(50)], Request(500)
    served = simulate([*pair, late], COST, leave=leave, most_rows=8, most_wait=200)
    assert served.took == [320, 270, 310] and served.calls == 2
    assert simulate(pair, COST, leave=leave, most_rows=2, most_wait=200).took == [170, 120]
    assert simulate([late], COST, leave=leave, most_rows=8, most_wait=200).took == [310]


def test_requests_that_come_during_a_call_are_its_followers():
    served = simulate([Request(0), Request(10), Request(20)], COST, leave=leave, most_rows=8, most_wait=0)
    assert served.took == [110, 220, 210] and served.calls == 2


def test_who_is_refused_is_counted_and_costs_nothing():
    stream = [Request(0, deadline=120), Request(0, deadline=120), Request(200, deadline=320)]
    served = simulate(stream, COST, admit=admit, most_waiting=9)
    assert (served.took, served.refused, served.in_time) == ([110, 110], 1, 2)
    assert simulate(stream, COST).in_time == 1, "the one that is refused would have made the last late"
    assert simulate([], COST).percentile(99) == 0


def test_littles_law_holds_of_what_was_counted():
    """The mean number inside, counted at each microsecond, is the rate times the mean time."""
    stream = poisson(200, 5_000, seed=3)
    served = simulate(stream, COST)
    inside = np.zeros(served.ends)
    for request, took in zip(stream, served.took):
        inside[request.arrived : request.arrived + took] += 1
    assert served.inside == pytest.approx(inside.mean())


def test_poisson_comes_at_its_rate_and_waits_for_its_patience():
    stream = poisson(20_000, 1_000, patience=500, seed=1)
    gaps = np.diff([request.arrived for request in stream])
    assert gaps.mean() == pytest.approx(1_000, rel=0.05) and gaps.std() == pytest.approx(1_000, rel=0.05)
    assert all(r.deadline - r.arrived == 500 for r in stream) and poisson(1, 1)[0].deadline == NEVER
    assert poisson(9, 1) == poisson(9, 1) != poisson(9, 1, seed=2)


def test_the_fit_finds_the_line():
    cost = Cost.fit({rows: 1e-6 * (50 + 3 * rows) for rows in (1, 4, 64)})
    assert cost.fixed == pytest.approx(50) and cost.per_row == pytest.approx(3) and cost(10) == 80
    assert Cost(0, 0)(5) == 1
    assert all(a < b for a, b in itertools.pairwise(map(cost, range(5))))

"""Checks of 04_serving/04_batching: (1) when a batch leaves, (2) which requests are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from ctrlab.lessons.topics.batching.queueing import NEVER, Cost, Request, simulate

from ctrlab.lessons.check import CheckFailed, call
from ctrlab.lessons.exercise import Exercise, Number

SHOWN = 8  # requests of a queue in a message


def reference_leave(waiting: Sequence[Request], now: int, most_rows: int, most_wait: int) -> int:
    """The definition: the oldest requests of one version that fit, if no other can join them or the first has waited long
    enough.
    """
    fit = 0
    while fit < len(waiting) and waiting[fit].version == waiting[0].version:
        if fit and sum(request.rows for request in waiting[: fit + 1]) > most_rows:
            break
        fit += 1
    closed = fit < len(waiting) or sum(request.rows for request in waiting[:fit]) >= most_rows
    return fit if fit and (closed or now - waiting[0].arrived >= most_wait) else 0


def reference_admit(request: Request, waiting: Sequence[Request], busy_until: int, cost: Callable, most_waiting: int) -> bool:
    """The definition: whether there is room, and the answer can come in time."""
    ahead = sum(cost(other.rows) for other in waiting)
    return len(waiting) < most_waiting and max(request.arrived, busy_until) + ahead + cost(request.rows) <= request.deadline


def _queue(waiting: Sequence[Request], now: int, most_rows: int, most_wait: int) -> str:
    shown = [f"{r.rows} rows of version {r.version} at {r.arrived}" for r in waiting[:SHOWN]] or ["nobody"]
    shown += [f"{len(waiting) - SHOWN} more"] if len(waiting) > SHOWN else []
    return f"now={now}, most_rows={most_rows}, most_wait={most_wait}, waiting: {', '.join(shown)}"


def _queues(rng: np.random.Generator):
    """The cases: (description, waiting, now, most_rows, most_wait), most by chance from few numbers, so that ends are met."""
    at, wait, most = int(rng.integers(1_000, 9_000)), int(rng.integers(100, 900)), int(rng.integers(6, 12))
    version = int(rng.integers(300, 9_000))  # Python keeps one object of a small number: `is` would do for ==
    one = Request(at)
    yield "nobody waits", [], at, most, wait
    yield "nobody waits, and there is no time to wait", [], at, most, 0
    yield "one that has just come", [one], at, most, wait
    yield "one that has waited a microsecond too little", [one], at + wait - 1, most, wait
    yield "one that has waited long enough", [one], at + wait, most, wait
    yield "no time to wait", [one], at, most, 0
    yield "a batch that is just full", [one, Request(at + 1, most - 1)], at + 1, most, wait
    yield "a batch that lacks a row", [one, Request(at + 1, most - 2)], at + 1, most, wait
    yield "one too large to join", [one, Request(at + 1, most)], at + 1, most, wait
    yield "one that is larger than a batch", [Request(at, most + 3)], at, most, wait
    yield "one that is larger than a batch, and another", [Request(at, most + 3), one], at, most, wait
    yield "a small one behind one too large to join", [one, Request(at, most), Request(at, 1)], at, most, wait
    yield "another version behind the first", [one, Request(at + 1, 1, 2)], at + 1, most, wait
    yield "versions that take turns", [one, Request(at, 1, 2), Request(at, 1, 1)], at, most, wait
    yield "a late one that is not the oldest version", [Request(at, 1, 2), Request(at, 1, 1)], at + wait, most, wait
    yield "batches of one row", [one, Request(at)], at, 1, wait
    for _ in range(200):
        count = int(rng.integers(1, 9))
        arrived = np.sort(rng.integers(at, at + 20, count)).tolist()
        rows = rng.choice([1, 1, 1, 2, 3, 8], count).tolist()
        versions = np.sort(version + rng.choice([0, 0, 0, 1], count)).tolist()
        waiting = list(map(Request, arrived, rows, versions))
        now, most_rows, most_wait = arrived[-1] + int(rng.integers(0, 9)), int(rng.integers(1, 12)), int(rng.integers(0, 20))
        yield "a queue by chance", waiting, now, most_rows, most_wait
    for most in (40, 39, *rng.integers(17, 41, 20).tolist()):
        waiting = [Request(arrived) for arrived in np.sort(rng.integers(at, at + wait, 40)).tolist()]
        yield "a long queue of small requests", waiting, at + wait, most, wait
        few = waiting[: int(rng.integers(most // 2, most))]
        for now in (few[0].arrived + wait - 1, few[0].arrived + wait):
            yield "a long queue that does not fill a batch", few, now, most, wait


def same_choice(received: object, expected: bool, case: str, question: Sequence) -> None:
    """Yes or no, also as NumPy has them."""
    if isinstance(received, bool | np.bool_) and received == expected:
        return
    request, waiting, busy_until, cost, most_waiting = question
    until = "none" if request.deadline == NEVER else request.deadline
    late = sum(other.deadline < request.arrived for other in waiting)
    raise CheckFailed(
        f"A request is taken if there is room and its answer can come by its deadline; here {case}.",
        expected=expected,
        received=received,
        index=f"a request that came at {request.arrived}, takes {cost(request.rows)}, deadline {until}, "
        f"{len(waiting)} wait ({sum(cost(other.rows) for other in waiting)}; {late} late), busy until {busy_until}, "
        f"most_waiting {most_waiting}",
        next_step="when can the server begin? Then come all who wait, late or not, each a call, then this one",
    )


def all_in_time(answer: Callable, rng: np.random.Generator) -> None:
    """A limit: whoever is taken is answered in time, when twice as many come as the server can answer."""
    cost = Cost(float(rng.integers(20, 60)), float(rng.integers(1, 9)))
    stream, at = [], 0
    for gap, rows in zip(rng.exponential(cost(1) / 2, 400), rng.integers(1, 5, 400)):
        at += int(gap)
        stream.append(Request(at, int(rows), deadline=at + 10 * cost(1)))
    served = call(lambda: simulate(stream, cost, admit=answer, most_waiting=50), case="twice as many as the server can answer")
    if served.in_time < len(served.took):
        raise CheckFailed(
            "Who is taken is answered in time; here twice as many come as the server can answer.",
            expected=f"{len(served.took)} of {len(served.took)} in time",
            received=served.in_time,
            next_step="count what the server has to do before this request, and the request itself",
        )


def _arrivals(rng: np.random.Generator):
    """The cases: (description, request, waiting, busy_until, cost, most_waiting)."""
    at, cost = int(rng.integers(1_000, 9_000)), Cost(float(rng.integers(20, 90)), float(rng.integers(1, 9)))
    alone = at + cost(2)
    yield "an idle server, and just enough time", Request(at, 2, deadline=alone), [], 0, cost, 5
    yield "an idle server, and a microsecond too little", Request(at, 2, deadline=alone - 1), [], 0, cost, 5
    busy = at + int(rng.integers(10, 99))
    yield "a busy server, and just enough time", Request(at, 2, deadline=busy + cost(2)), [], busy, cost, 5
    yield "a busy server, and a microsecond too little", Request(at, 2, deadline=busy + cost(2) - 1), [], busy, cost, 5
    ahead = [Request(at - 9, 1), Request(at - 5, 7)]
    ends = busy + cost(1) + cost(7) + cost(2)
    yield "two who wait, and just enough time", Request(at, 2, deadline=ends), ahead, busy, cost, 5
    yield "two who wait, and a microsecond too little", Request(at, 2, deadline=ends - 1), ahead, busy, cost, 5
    yield "a full queue, and all the time", Request(at), ahead, busy, cost, 2
    yield "room for one more", Request(at), ahead, busy, cost, 3
    yield "a queue of no places", Request(at), [], 0, cost, 0
    yield "a deadline that has passed", Request(at, deadline=at - 1), [], 0, cost, 5
    yield "a request without a deadline", Request(at, 3, deadline=NEVER), ahead, busy, cost, 5
    late = [Request(at - 9, 1, deadline=at - 1), Request(at - 5, 7, deadline=at - 2)]
    too_slow = [Request(at - 9, 1), Request(at - 5, 7, deadline=busy + cost(1) + cost(7) - 1)]
    yield "a full queue of late ones", Request(at), late, busy, cost, 2
    for those, who in (("late ones", late), ("one who will be late", too_slow)):
        yield f"a queue with {those}, and just enough time", Request(at, 2, deadline=ends), who, busy, cost, 5
        yield f"a queue with {those}, and a microsecond too little", Request(at, 2, deadline=ends - 1), who, busy, cost, 5
    for _ in range(200):
        count = int(rng.integers(0, 5))
        deadlines = rng.choice([at - 3, at, at + 30, NEVER], count).tolist()
        waiting = [Request(at - 5, rows, 1, until) for rows, until in zip(rng.integers(1, 9, count).tolist(), deadlines)]
        busy, rows = at + int(rng.integers(-50, 100)), int(rng.integers(1, 9))
        exact = max(at, busy) + sum(cost(other.rows) for other in waiting) + cost(rows)
        request = Request(at, rows, deadline=exact + int(rng.choice([-40, -1, 0, 1, 40])))
        yield "a queue by chance", request, waiting, busy, cost, int(rng.integers(0, 7))


CHECKS = {
    1: Exercise(
        asks="leave(waiting, now, most_rows, most_wait): requests, µs, rows, µs -> how many of the oldest go as one call now",
        cases=_queues,
        reference=reference_leave,
        compare=Number(
            "A batch holds the oldest requests that fit, and leaves when it is closed or late",
            "count who fits; then ask whether the next one can't join, the batch is full, or the first is late",
            whole=True,
            shown=_queue,
        ),
        run_it="run it by hand on such a queue: nobody may wait, or one alone",
    ),
    2: Exercise(
        asks="admit(request, waiting, busy_until, cost, most_waiting): a request, requests, µs, rows -> µs, requests -> bool",
        cases=_arrivals,
        reference=reference_admit,
        compare=same_choice,
        limits=[all_in_time],
        run_it="run it by hand on such a queue: nobody may wait, and the server may be idle",
    ),
}

"""Checks of 01_baseline/04_where_the_time_goes: (1) self times of nested events, (2) the part with the most to gain."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.exercise import Each, Exercise, Number, Same
from ctrlab.lessons.interpreter import interpreted
from ctrlab.lessons.limits import Stated
from ctrlab.profiling.traces import OpRow, OpTable

Event = tuple[str, int, int]  # name, start, length
MANY, MOST_GROWTH = 100, 6.0


def nested(rng: np.random.Generator, start: int, length: int, depth: int) -> tuple[list[Event], dict[str, int]]:
    """An event with events inside, `depth` levels of them, and the self time by name that they were made with."""
    name = f"op_{rng.integers(0, 6)}"
    events, own = [(name, start, length)], {name: length}
    cuts = np.sort(rng.choice(np.arange(start + 1, start + length), size=4, replace=False)).tolist() if depth else []
    for begin, end in zip(cuts[::2], cuts[1::2]):
        inner, times = nested(rng, begin, end - begin, depth - 1 if end - begin > 50 else 0)
        events += inner
        own[name] -= end - begin
        for key, value in times.items():
            own[key] = own.get(key, 0) + value
    return events, own


def threads(rng: np.random.Generator) -> Iterator[tuple[str, list[Event], dict[str, int]]]:
    """The cases: (description, events of one thread, self time by name)."""
    for depth in (1, 2, 3):
        events, own = nested(rng, int(rng.integers(0, 100)), 100_000, depth)
        yield f"events nested {depth} deep, in any order", [events[i] for i in rng.permutation(len(events))], own
    yield "no events", [], {}
    yield "events one after the other, without a gap", [("a", 0, 10), ("b", 10, 5), ("a", 15, 1)], {"a": 11, "b": 5}
    yield "three levels", [("loop", 0, 100), ("body", 10, 80), ("matmul", 20, 60)], {"loop": 20, "body": 20, "matmul": 60}
    yield "two events that begin together", [("short", 5, 10), ("long", 5, 40)], {"short": 10, "long": 30}
    yield "an event within one of its own name", [("call", 0, 10), ("call", 2, 4)], {"call": 10}


def require_one_pass(answer: Callable, rng: np.random.Generator) -> None:
    """The budget of exercise 1: four times the events may take about four times the lines of Python; a search through all other
    events takes sixteen times.
    """

    def lines(count: int) -> int:
        pairs = [(f"op_{i % 6}", 10 * i + d, 9 - 4 * d) for i in range(count // 2) for d in (0, 1)]
        events = [("step", 0, 10 * count), *pairs]
        return interpreted(answer, [events[i] for i in rng.permutation(len(events))], most=count * count * 50)

    ratio = lines(4 * MANY) / lines(MANY)
    if ratio > MOST_GROWTH:
        raise CheckFailed(
            "Budget: one sort, one pass over the events.",
            wrong=f"For {4 * MANY} events Python runs {ratio:.1f} times the lines that {MANY} events take.",
            expected=f"for {4 * MANY} events about 4 times the lines that {MANY} events take",
            received=f"{ratio:.1f} times",
            next_step="look at each event once: which of those before it are still open?",
        )


def tables(rng: np.random.Generator) -> Iterator[tuple[str, OpTable]]:
    """The cases: (description, table)."""
    for _ in range(3):
        shares = rng.dirichlet(np.ones(12))
        yield "a random table", table([(f"part_{rng.integers(0, 4)}", share) for share in shares])
    yield "many short ops that outweigh the longest", table([("tower", 0.3), *[("gru", 0.07)] * 10])
    yield "one part that is everything", table([("gru", 0.75), ("gru", 0.25)])
    yield "the largest part in the last row", table([("input", 0.2), ("loss", 0.2), ("linear", 0.6)])


def table(entries: list[tuple[str, float]]) -> OpTable:
    rows = (OpRow("MatMul", f"op_{i}", part, 1.0, share, share) for i, (part, share) in enumerate(entries))
    return OpTable(tuple(rows), steps=1, wall=1.0, device="none")


def most_gain(profile: OpTable) -> tuple[str, float]:
    """The definition: the part with the largest summed share, and the speed-up without it: 1 / (1 - share)."""
    shares: dict[str, float] = {}
    for row in profile.rows:
        shares[row.part] = shares.get(row.part, 0.0) + row.share
    part = max(shares, key=shares.get)
    left = 1 - shares[part]
    return part, 1 / left if left > 1e-9 else float("inf")


CHECKS = {
    1: Exercise(
        asks="self_times(events): events of one thread -> {name: self time, summed over the events of that name}",
        cases=threads,
        reference=lambda events, own: own,
        given=lambda events, own: (events,),
        compare=Each(
            "self time",
            Number(
                "Self time is an event's length less that of the events directly in it",
                "sort by start, the longer first; of all events around one, only the innermost has it directly within",
            ),
        ),
        limits=[
            Stated(f"for {4 * MANY} events at most {MOST_GROWTH:g} times the lines of Python for {MANY}", require_one_pass),
        ],
    ),
    2: Exercise(
        asks="most_gain(table): OpTable -> (part, how many times as fast the step would be if that part took no time)",
        cases=tables,
        reference=most_gain,
        compare={
            "part": Same("The answer names the part with the largest summed share", "table.by_part() sums the rows of each part"),
            "gain": Number("The gain is 1 over what is left", "what is left takes 1 - share", rtol=1e-6),
        },
        run_it="what if a part is everything? Then nothing is left to divide by",
    ),
}

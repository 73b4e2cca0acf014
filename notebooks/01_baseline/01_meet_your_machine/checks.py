"""Checks of 01_baseline/01_meet_your_machine: (1) the bound of a computation, (2) the work of an embedding lookup."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.exercise import Close, Exercise
from ctrlab.profiling.work import Ceilings, Work, bound


def machines(rng: np.random.Generator) -> Iterator[Ceilings]:
    """Invented machines, whose ceilings no real machine has."""
    for _ in range(4):
        sgemm, stream, rows = (10 ** rng.uniform([10, 9, 6], [13, 12, 9])).tolist()
        one_thread = stream / 2
        yield Ceilings(
            sgemm=sgemm, bf16=2 * sgemm, stream=stream, stream_one_thread=one_thread, random_rows=rows, sigmoids=sgemm / 50
        )


def works(rng: np.random.Generator) -> Iterator[tuple[str, Work]]:
    """The cases: (description, work): random ones, then those that break a careless answer."""
    some = (10 ** rng.uniform([7, 6, 3], [12, 10, 8])).tolist()
    yield "random work", Work(*some, row_bytes=int(rng.integers(4, 512)))
    yield "much arithmetic on little memory", Work(flops=1e15, bytes=some[1])
    yield "a copy: no arithmetic", Work(bytes=some[1])
    yield "memory and arithmetic alike", Work(flops=some[0], bytes=some[0] / 4, random_rows=some[2])
    yield "random rows and nothing else", Work(random_rows=some[2], row_bytes=4)
    yield "random rows of many cache lines", Work(random_rows=some[2], row_bytes=100_000)
    yield "nothing to do", Work()


def on_machines(rng: np.random.Generator) -> Iterator[tuple[str, Work, Ceilings]]:
    for ceilings in machines(rng):
        yield from ((f"{case}, {said(work)}", work, ceilings) for case, work in works(rng))


def said(work: Work) -> str:
    """The numbers of a work that are not 0, in short."""
    return ", ".join(f"{name} {value:.4g}" for name, value in dataclasses.asdict(work).items() if value)


def lookup_work(rows: int, ids: int, dim: int) -> Work:
    """The definition: `rows` bags of `ids` int64 ids each, the float32 [dim] rows of each bag summed."""
    return Work(flops=rows * ids * dim, bytes=8 * rows * ids + 4 * rows * dim, random_rows=rows * ids, row_bytes=4 * dim)


HINTS = {
    "flops": "each number of each fetched row is added once",
    "bytes": "ids are read once (int64), the result is written once (float32)",
    "random_rows": "one row per id",
    "row_bytes": "a row is dim floats of four bytes",
    "sigmoids": "a sum has none",
}


def sizes(rng: np.random.Generator) -> Iterator[tuple[str, int, int, int]]:
    """The cases: (description, rows, ids, dim)."""
    for _ in range(4):
        yield "random sizes", *rng.integers(2, 5_000, 3).tolist()
    yield from (("one id a row", 64, 1, 16), ("empty bags", 64, 0, 16), ("no rows", 0, 10, 16), ("a table one wide", 64, 10, 1))


def same_work(received: object, expected: Work, case: str, question: Sequence) -> None:
    """Requires that each number of the Work is exactly right."""
    index = "{}: rows={}, ids={}, dim={}".format(case, *question)
    if not isinstance(received, Work):
        rule = "The answer is a Work."
        raise CheckFailed(rule, expected="a Work(...)", received=repr(received), index=index, next_step="return it")
    for name, right in dataclasses.asdict(expected).items():
        if (came := getattr(received, name)) != right:
            rule = f"Work.{name} counts what no implementation can leave out."
            wrong = f"Work.{name} is {came}, and {right} is right."
            raise CheckFailed(rule, wrong=wrong, expected=right, received=came, index=index, next_step=HINTS[name])


CHECKS = {
    1: Exercise(
        asks="least_seconds(work, ceilings): the bound of `ctrlab.profiling.work`, in seconds",
        cases=on_machines,
        reference=bound,
        compare=Close(
            "the longer of arithmetic and memory; memory is the stream plus the random rows", rtol=1e-9, dtype=np.float64
        ),
    ),
    2: Exercise(asks="lookup_work(rows, ids, dim): sizes -> Work", cases=sizes, reference=lookup_work, compare=same_work),
}

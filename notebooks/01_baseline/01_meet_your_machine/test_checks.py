"""The checks of the first lesson against right answers and every kind of wrong one."""

import dataclasses

import numpy as np
import pytest
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed
from ctrlab.profiling.work import Work, bound, parts

LESSON = "01_baseline/01_meet_your_machine"
least_seconds, lookup_work = solved(LESSON, 1), solved(LESSON, 2)


def adds_up(work, ceilings):
    return sum(parts(work, ceilings).values())


def longest_of_three(work, ceilings):
    return max(parts(work, ceilings).values())


def short_rows(work, ceilings):
    return bound(dataclasses.replace(work, row_bytes=1), ceilings)


def one_thread(work, ceilings):
    return bound(work, dataclasses.replace(ceilings, stream=ceilings.stream_one_thread))


def low_precision(work, ceilings):
    return np.float16(bound(work, ceilings))


def constant(work, ceilings):
    return 1.0


def no_op(work, ceilings):
    return None


def divides_by_work(work, ceilings):
    return bound(work, ceilings) * work.flops / work.flops


def changed(**change):
    """The right work with fields changed: name -> factor."""

    def answer(rows, ids, dim):
        right = lookup_work(rows, ids, dim)
        return dataclasses.replace(right, **{name: getattr(right, name) * factor for name, factor in change.items()})

    return answer


def one_less(rows, ids, dim):
    return lookup_work(rows, ids - 1, dim)


def rows_streamed_too(rows, ids, dim):
    return lookup_work(rows, ids, dim) + Work(bytes=4 * rows * ids * dim)


def nothing(rows, ids, dim):
    return None


WRONG_WORKS = {
    "multiply-adds": changed(flops=2),
    "int32 ids": changed(bytes=0.5),
    "a row a bag": lambda rows, ids, dim: dataclasses.replace(lookup_work(rows, ids, dim), random_rows=rows),
    "row in floats": changed(row_bytes=0.25),
    "off by one": one_less,
    "rows twice": rows_streamed_too,
    "no-op": nothing,
    "a constant": lambda rows, ids, dim: Work(flops=1),
    "an error on empty bags": lambda rows, ids, dim: lookup_work(rows, ids, dim) if rows // ids else None,
}


WRONG_BOUNDS = [adds_up, longest_of_three, short_rows, one_thread, low_precision, constant, no_op, divides_by_work]
test_right_answers_pass, test_wrong_answers_are_refused = judge(
    LESSON, {1: ((least_seconds, bound), WRONG_BOUNDS), 2: (lookup_work, WRONG_WORKS)}
)


def test_a_wrong_work_says_which_field_and_what_to_try():
    with pytest.raises(CheckFailed) as failed:
        check.run(LESSON, 2, WRONG_WORKS["row in floats"], seed=1)
    assert "Work.row_bytes" in failed.value.rule and "four bytes" in failed.value.next_step
    assert "rows=" in failed.value.index

"""Properties of the exercises of all lessons: a stub is not judged, and an exercise on a kernel is about the learner's own."""

import pytest
from solved import solved
from wrong_answers import Altered, usual

from ctrlab.lessons import check, course, cpp_cell, notebook, places
from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.exercise import Exercise
from ctrlab.ops import (
    attention,
    batch_norm,
    factorization_machine,
    gru,
    indicator,
    kernel_swap,
    lookup,
    mixture,
    pointwise,
    snapshot,
)
from ctrlab.ops.parsing import numbers

OPS = {  # kernel of a learner's: the op that calls it
    "attention_pool": attention.fused,
    "batch_norm": batch_norm.fused,
    "factorization_machine": factorization_machine.fused,
    "gru": gru.fused,
    "indicator": indicator.fused,
    "lookup": lookup.fused,
    "mixture": mixture.fused,
    "parse_numbers": numbers.fused,
    "pointwise": pointwise.fused,
    "snapshot": snapshot.fused,
}
EXERCISES = [(lesson.name, n, asked) for lesson in course.lessons() for n, asked in check.checks_of(lesson.name).items()]
IN_PYTHON = [(lesson, n) for lesson, n, asked in EXERCISES if not getattr(asked, "kernel", "")]
DECLARED = [(lesson, n) for lesson, n, asked in EXERCISES if isinstance(asked, Exercise) and not asked.kernel]
ON_KERNELS = [(lesson, n, asked.kernel) for lesson, n, asked in EXERCISES if isinstance(asked, Exercise) and asked.kernel]


@pytest.mark.parametrize("lesson, exercise", DECLARED)
def test_the_right_answer_passes_and_what_is_wrong_for_every_exercise_is_refused(lesson, exercise):
    right = solved(lesson, exercise)
    check.run(lesson, exercise, right, 0)
    for what, answer in usual(right).items():
        try:
            check.run(lesson, exercise, answer, 1)
        except CheckFailed as refused:
            assert refused.rule.endswith(".") and refused.next_step
        else:
            assert isinstance(answer, Altered) and not answer.altered, f"It takes this for an answer: {what}"


@pytest.mark.parametrize("lesson, exercise", IN_PYTHON)
def test_a_stub_is_not_judged(lesson, exercise):
    def stub(*_):
        raise NotImplementedError("Exercise 1: write this, then run its check")

    if notebook.solutions(notebook.read(places.lesson_path(lesson)))[exercise].startswith("%%cpp"):
        stub = cpp_cell.Source("stub", '#error "Exercise 1: write this, then run its check"')
    with pytest.raises(check.Unanswered):
        check.run(lesson, exercise, stub)


def test_each_kernel_of_the_course_is_judged():
    assert {kernel for *_, kernel in ON_KERNELS} == OPS.keys()


@pytest.mark.parametrize("lesson, exercise, kernel", ON_KERNELS)
def test_our_kernel_in_place_is_no_answer(lesson, exercise, kernel, monkeypatch):
    monkeypatch.setattr(kernel_swap, "swapped", lambda: frozenset(kernel_swap.kernels()) - {kernel})
    with pytest.raises(CheckFailed, match="your kernel"):
        check.run(lesson, exercise, OPS[kernel])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("lesson, exercise, kernel", ON_KERNELS)
def test_a_right_kernel_passes(lesson, exercise, kernel, seed, swapped):
    check.run(lesson, exercise, OPS[kernel], seed)  # real ones are counted in the tests of the checks with such a budget


@pytest.mark.parametrize("lesson, exercise, kernel", ON_KERNELS)
def test_a_way_that_runs_on_no_kernel_is_no_answer(lesson, exercise, kernel, swapped, monkeypatch):
    def counts(name, call):
        call()
        return kernel_swap.Counts(0, 0)

    monkeypatch.setattr(kernel_swap, "counts", counts)
    with pytest.raises(CheckFailed, match=rf"(?s)on your kernel.*calls of ctrlab_{kernel}\n.*received none"):
        check.run(lesson, exercise, OPS[kernel])

"""What holds for the exercises of all lessons: a stub is not judged, and an exercise on a kernel is about the learner's own."""

import pytest

from ctrlab.lessons import check, course, cpp_cell, notebook, places
from ctrlab.lessons.check import CheckFailed
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

ON_KERNELS = {  # lesson: (the kernel of its exercise 2, the op that calls it)
    "01_baseline/00_start_here": ("pointwise", pointwise.fused),
    "02_ops/01_indicator_column": ("indicator", indicator.fused),
    "02_ops/02_one_lookup": ("lookup", lookup.fused),
    "02_ops/03_ragged_attention": ("attention_pool", attention.fused),
    "02_ops/04_fused_gru": ("gru", gru.fused),
    "02_ops/06_sequence_parsing": ("parse_numbers", numbers.fused),
    "02_ops/07_interactions": ("factorization_machine", factorization_machine.fused),
    "02_ops/08_subgraphs": ("batch_norm", batch_norm.fused),
    "02_ops/09_experts": ("mixture", mixture.fused),
    "02_ops/14_checkpoints": ("snapshot", snapshot.fused),
}
EXERCISES = [(lesson.name, exercise) for lesson in course.lessons() for exercise in check.checks_of(lesson.name)]


@pytest.mark.parametrize("lesson,exercise", [e for e in EXERCISES if e[0] not in ON_KERNELS or e[1] != 2])
def test_a_stub_is_not_judged(lesson, exercise):
    def stub(*_):
        raise NotImplementedError("Exercise 1: write this, then run its check")

    if notebook.solutions(notebook.read(places.lesson_path(lesson)))[exercise].startswith("%%cpp"):
        stub = cpp_cell.Source("stub", '#error "Exercise 1: write this, then run its check"')
    with pytest.raises(check.Unanswered):
        check.run(lesson, exercise, stub)


@pytest.mark.parametrize("lesson", ON_KERNELS)
def test_our_kernel_in_place_is_no_answer(lesson, monkeypatch):
    kernel, op = ON_KERNELS[lesson]
    monkeypatch.setattr(kernel_swap, "swapped", lambda: frozenset(kernel_swap.kernels()) - {kernel})
    with pytest.raises(CheckFailed, match="your kernel"):
        check.run(lesson, 2, op)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("lesson", ON_KERNELS)
def test_a_right_kernel_passes(lesson, seed, swapped):
    check.run(lesson, 2, ON_KERNELS[lesson][1], seed)  # real ones are counted in the tests of the checks with such a budget


@pytest.mark.parametrize("lesson", ON_KERNELS)
def test_a_way_that_runs_on_no_kernel_is_no_answer(lesson, swapped, monkeypatch):
    def counts(name, call):
        call()
        return kernel_swap.Counts(0, 0)

    kernel, op = ON_KERNELS[lesson]
    monkeypatch.setattr(kernel_swap, "counts", counts)
    with pytest.raises(CheckFailed, match=rf"(?s)on your kernel.*calls of ctrlab_{kernel}\n.*received none"):
        check.run(lesson, 2, op)

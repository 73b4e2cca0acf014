"""The results of a %%kernel cell, and of the learner's stub in it."""

import pytest

from ctrlab.lessons import check, kernel_magic, notebook, places
from ctrlab.ops import indicator, kernel_swap

LESSON = "02_ops/01_indicator_column"


def kernel_cell(of=lambda nb: nb) -> str:
    """The cell of exercise 2 in the solved notebook, or in what `of` makes of it."""
    return notebook.solutions(of(notebook.read(places.lesson_path(LESSON))))[2].partition("\n")[2]


def test_the_solution_compiles_is_swapped_in_and_passes_its_check(capsys):
    kernel_magic.kernel("indicator", kernel_cell())
    assert "restore_kernel" in capsys.readouterr().out and kernel_swap.swapped() == {"indicator"}
    check.run(LESSON, 2, indicator.fused)
    kernel_magic.restore_kernel("")
    assert kernel_swap.swapped() == frozenset()


def test_the_stub_does_not_compile_and_says_which_exercise_it_is():
    with pytest.raises(kernel_swap.KernelError, match="Exercise 2: write this"):
        kernel_magic.kernel("indicator", kernel_cell(notebook.learner))
    assert kernel_swap.swapped() == frozenset()


def test_a_refused_kernel_says_whose_is_in_use(capsys):
    for wanted in ("ours", "your earlier kernel"):
        with pytest.raises(kernel_swap.KernelError):
            kernel_magic.kernel("indicator", kernel_cell(notebook.learner))
        assert capsys.readouterr().out == f"This kernel is not used. In use for 'indicator': {wanted}.\n"
        kernel_magic.kernel("indicator", kernel_cell())
        capsys.readouterr()


@pytest.mark.parametrize("wrong", [("ids[i] < 0", "ids[i] < -1"), ("i < last", "i <= last"), ("column.offset + ", "")])
def test_wrong_loops_are_refused(wrong):
    with pytest.raises(kernel_swap.KernelError):
        kernel_magic.kernel("indicator", kernel_cell().replace(*wrong))
    assert kernel_swap.swapped() == frozenset()


def test_a_check_judges_the_last_cell_not_the_one_before():
    kernel_magic.kernel("indicator", kernel_cell())
    with pytest.raises(kernel_swap.KernelError):
        kernel_magic.kernel("indicator", kernel_cell(notebook.learner))
    with pytest.raises(check.CheckFailed, match=r"(?s)your last %%kernel cell.*refused; your earlier kernel is in use"):
        check.run(LESSON, 2, indicator.fused)
    kernel_magic.kernel("indicator", kernel_cell())
    check.run(LESSON, 2, indicator.fused)


def test_lines_are_those_that_jupyter_shows():
    """It counts the line of %%kernel, too."""
    cell = kernel_cell().splitlines()
    number = next(n for n, line in enumerate(cell, 2) if "ids[i]" in line)
    cell[number - 2] = "this is no C++;"
    with pytest.raises(kernel_swap.KernelError, match=f"kernel.cc:{number}:"):
        kernel_magic.kernel("indicator", "\n".join(cell) + "\n")

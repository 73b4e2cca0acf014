"""Exercises on kernels that may not allocate: the solution passes, and with a vector in it it does not."""

import pytest

from ctrlab.lessons import check, notebook, places
from ctrlab.lessons.check import CheckFailed
from ctrlab.ops import attention, gru, kernel_swap, mixture

LESSONS = {  # lesson: (kernel, its op, a line of the solution)
    "02_ops/03_ragged_attention": ("attention_pool", attention.fused, "if (first == last) continue;"),
    "02_ops/04_fused_gru": ("gru", gru.fused, "const float *x = in->x + p * C"),
    "02_ops/09_experts": ("mixture", mixture.fused, "const float most = "),
}
VECTOR = "std::vector<float> t(64); const_cast<volatile float&>(t[0]) = 1; "


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_kernel_that_allocates_is_refused(lesson):
    kernel, op, line = LESSONS[lesson]
    solved = notebook.solutions(notebook.read(places.lesson_path(lesson)))[2].partition("\n")[2]
    assert line in solved
    try:
        kernel_swap.swap(kernel, solved, seconds=60)
        check.run(lesson, 2, op)
        kernel_swap.swap(kernel, "#include <vector>\n" + solved.replace(line, VECTOR + line), seconds=60)
        with pytest.raises(CheckFailed, match=r"(?s)Budget: nothing is allocated.*received \d+ for"):
            check.run(lesson, 2, op)
    finally:
        kernel_swap.restore(kernel)

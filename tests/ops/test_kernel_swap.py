"""A learner's kernel is taken when it is right, and refused with one clear reason when it is not."""

import re

import pytest
import tensorflow as tf

from ctrlab import _native
from ctrlab.errors import NativeLibraryError, UnknownName
from ctrlab.ops import indicator, kernel_swap
from ctrlab.ops.kernel_swap import KernelError

RIGHT = """
#include <cstdlib>
using namespace ctrlab;

void ctrlab_indicator(const IndicatorInput* in, const float* kernel, float* out, const ParallelFor* parallel_for) {
  (*parallel_for)(in->rows, 1000, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      float* row = out + b * in->outputs;
      for (int64_t o = 0; o < in->outputs; ++o) row[o] = 0;
      for (int64_t c = 0; c < in->column_count; ++c) {
        const IdColumn& column = in->columns[c];
        const int64_t begin = column.splits ? column.splits[b] : b;
        const int64_t end = column.splits ? column.splits[b + 1] : b + 1;
        for (int64_t i = begin; i < end; ++i) {
          if (column.ids[i] < 0) continue;
          const float weight = column.weights ? column.weights[i] : 1.0f;
          const float* source = kernel + (column.offset + column.ids[i]) * in->outputs;
          for (int64_t o = 0; o < in->outputs; ++o) row[o] += weight * source[o];
        }
      }
    }
  });
}
"""
SKIP_REPEATED = "i > begin && column.ids[i] == column.ids[i - 1]"
WRONG = {
    "a write past the end": ("row[o] = 0;", "row[o + in->rows * in->outputs] = 0;", "heap-buffer-overflow, WRITE.*line 9"),
    "a read past the end": ("column.ids[i]) *", "column.ids[i] + 1000000) *", "READ|SEGV"),
    "a loop without end": ("row[o] = 0;", 'while (in->rows) asm volatile("");', "come to an end"),
    "nothing at all": ("b < last", "b < first", "sum of weight.*received +nan"),
    "off by one row": ("column.ids[i]) *", "(column.ids[i] ? column.ids[i] - 1 : 0)) *", "sum of weight.*one id a row"),
    "off by one id": ("int64_t i = begin", "int64_t i = begin + 1", "sum of weight"),
    "no duplicates": ("column.ids[i] < 0", f"column.ids[i] < 0 || ({SKIP_REPEATED})", "sum of weight"),
    "no weights": ("column.weights ? column.weights[i] : 1.0f", "1.0f", "sum of weight.*weights"),
    "unknown ids taken for the first": (
        "if (column.ids[i] < 0) continue;",
        "if (column.ids[i] < 0) { row[0] += *kernel; continue; }",
        "sum of",
    ),
    "low precision": ("weight * source[o]", "weight * (int)(source[o] * 1e3f) * 1e-3f", "sum of weight"),
    "a constant": ("row[o] +=", "row[o] = 1 + 0 *", "sum of weight"),
    "changed inputs": ("row[o] = 0;", "row[o] = 0, const_cast<float*>(kernel)[0] += 1;", "leave its inputs|sum of"),
    "one piece taken for all": (
        "float* row = out",
        "if (first > 0) return; float* row = out",
        "sum of.*received +nan.*unit by unit",
    ),
    "undefined arithmetic": (
        "row[o] = 0;",
        "row[o] = 1 / (in->rows - in->rows);",
        "division by zero.*line 9 of the kernel; the case: one id a row, the work in one piece",
    ),
    "text that is no C++": ("void ctrlab", "void void ctrlab", "must compile.*kernel.cc:5"),
    "another name": ("ctrlab_indicator(", "my_indicator(", "must define the kernel.*void ctrlab_indicator"),
    "another signature": ("const float* kernel,", "const double* kernel,", "must compile|must define the kernel"),
    "an end of the process": ("row[o] = 0;", "::_Exit(0);", "must return to its caller.*process with exit code 0"),
    "an orderly end of the process": ("row[o] = 0;", "std::exit(1);", "must return to its caller.*process with exit code 1"),
    "all the memory": (
        "row[o] = 0;",
        "for (char* p;;) p = new char[1 << 26], __builtin_memset(p, 1, 1 << 26);",
        "rss limit|memory",
    ),
    "a trap": ("row[o] = 0;", "__builtin_trap();", "signal|exit code|SEGV|ILL"),
}


@pytest.fixture
def ours_again():
    yield
    kernel_swap.restore()


def product():
    """The op's current result on ids whose right result is 3 + 2."""
    columns = [tf.ragged.constant([[2, 1]], dtype=tf.int64, row_splits_dtype=tf.int64)]
    return float(indicator.fused(columns, [3], tf.constant([[1.0], [2.0], [3.0]]))[0, 0])


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_kernel_is_refused_with_its_reason(case, tmp_path):
    old, new, reason = WRONG[case]
    assert old in RIGHT
    path = tmp_path / "kernel.cc"
    path.write_text(RIGHT.replace(old, new))
    with pytest.raises(KernelError, match=f"(?s){reason}") as refused:
        kernel_swap.check_source("indicator", path, seconds=1 if case == "a loop without end" else 60)
    assert "Traceback" not in str(refused.value) and len(str(refused.value)) < 2_000


def test_a_wrong_answer_says_what_was_expected_and_where(tmp_path):
    path = tmp_path / "kernel.cc"
    path.write_text(RIGHT.replace("row[o] +=", "row[o] -="))
    with pytest.raises(KernelError) as refused:
        kernel_swap.check_source("indicator", path, seconds=60)
    error = refused.value
    assert float(error.expected) == -float(error.received) != 0
    assert re.match(r"\[\d, \d\], one id a row, the work in one piece$", error.index)
    assert error._render_traceback_() == [f"KernelError: {error}"]


def test_a_right_kernel_is_used_until_ours_is_restored(ours_again):
    marked = RIGHT.replace("float* row = out", "++calls; float* row = out").replace(
        "using namespace ctrlab;", "using namespace ctrlab;\n#include <atomic>\nstd::atomic<int> calls;"
    )
    assert product() == 5
    kernel_swap.swap("indicator", marked + "CTRLAB_EXPORT int count() { return calls; }", seconds=60)
    theirs = kernel_swap._loaded[-1]
    assert (product(), theirs.count()) == (5, 1)
    with_ours = kernel_swap.with_ours("indicator", product)
    assert (with_ours(), theirs.count()) == (5, 1)
    assert (product(), theirs.count()) == (5, 2)
    kernel_swap.restore("indicator")
    assert (product(), with_ours(), theirs.count()) == (5, 5, 2)


def test_a_refused_kernel_leaves_the_one_before(ours_again):
    with pytest.raises(KernelError):
        kernel_swap.swap("indicator", "text")
    assert product() == 5


def test_a_kernel_of_another_interface_is_refused(monkeypatch, ours_again):
    monkeypatch.setattr(kernel_swap, "check_source", lambda *a, **k: None)
    with pytest.raises(KernelError, match=r"(?s)interface 1\n.*interface 77.*pip install"):
        kernel_swap.swap("indicator", "#undef CTRLAB_ABI_VERSION\n#define CTRLAB_ABI_VERSION 77\n" + RIGHT)
    assert product() == 5


@pytest.mark.parametrize("use", [lambda name: kernel_swap.swap(name, RIGHT), kernel_swap.restore, kernel_swap.op_of])
def test_a_mistyped_kernel_is_one_sentence(use):
    known = ", ".join(kernel_swap.kernels())
    with pytest.raises(UnknownName) as refused:
        use("indicatr")
    assert str(refused.value) == f"Unknown kernel 'indicatr'; known are {known}. Did you mean 'indicator'?"
    assert refused.value._render_traceback_() == [f"UnknownName: {refused.value}"]
    assert _native.library().c.ctrlab_kernels_restore(b"indicatr") == kernel_swap.UNKNOWN_KERNEL


def test_a_kernel_that_the_library_lacks_is_one_sentence(monkeypatch):
    name = "indicatr"
    monkeypatch.setattr(kernel_swap, "check_source", lambda *a, **k: None)
    monkeypatch.setattr(kernel_swap, "kernels", lambda: {name: "indicator"})
    source = RIGHT.replace("void ctrlab_indicator(", f"CTRLAB_EXPORT void ctrlab_{name}(")
    with pytest.raises(NativeLibraryError, match=f"^The compiled library has no kernel '{name}', which .* declare; run `pip.*$"):
        kernel_swap.swap(name, source)
    assert name not in kernel_swap.swapped()


def test_the_table_has_every_kernel_that_can_be_swapped():
    for name in kernel_swap.kernels():
        assert _native.library().c.ctrlab_kernels_restore(name.encode()) == 0


def test_the_magic_in_a_notebook(ours_again, capsys):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "ctrlab.lessons.kernel_magic")
    shell.run_cell_magic("kernel", "indicator", RIGHT)
    shell.run_line_magic("restore_kernel", "indicator")
    out = capsys.readouterr().out
    assert "Your kernel 'indicator' is right" in out and "Our kernel 'indicator' is in use." in out
    with pytest.raises(KernelError, match="must compile"):
        shell.run_cell_magic("kernel", "indicator", "text")
    with pytest.raises(UnknownName, match="Did you mean 'indicator'"):
        shell.run_cell_magic("kernel", "indicatr", RIGHT)
    with pytest.raises(UnknownName, match="Unknown kernel ''; known are attention_scores, "):
        shell.run_cell_magic("kernel", "", RIGHT)
    InteractiveShell.clear_instance()

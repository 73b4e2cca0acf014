"""The checks of the first lesson against right answers and every kind of wrong one."""

import statistics

import numpy as np
import pytest
import tensorflow as tf
from ctrlab.lessons.topics.start_here import figures as start_here
from solved import solved
from wrong_answers import judge, named

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed
from ctrlab.ops import kernel_swap, pointwise
from ctrlab.optimizations import LADDER

LESSON = "01_baseline/00_start_here"


median_of_ratios = solved(LESSON, 1)


def no_op(baseline, variant):
    return baseline


def all_ratios(baseline, variant):
    return baseline / variant


def constant(baseline, variant):
    return 2.0


def upside_down(baseline, variant):
    return np.median(variant / baseline)


def mean(baseline, variant):
    return np.mean(baseline / variant)


def ratio_of_medians(baseline, variant):
    return np.median(baseline) / np.median(variant)


def ratio_of_means(baseline, variant):
    return np.mean(baseline) / np.mean(variant)


def ratio_of_fastest(baseline, variant):
    return np.min(baseline) / np.min(variant)


def first_pair(baseline, variant):
    return baseline[0] / variant[0]


def off_by_one(baseline, variant):
    return np.median(baseline / np.roll(variant, 1))


def without_the_first_pair(baseline, variant):
    return np.median((baseline / variant)[len(baseline) > 1 :])


def right_on_odd_numbers_only(baseline, variant):
    return statistics.median_low((baseline / variant).tolist())


def right_on_nine_pairs_only(baseline, variant):
    return np.median((baseline / variant)[:9])


def sorted_apart(baseline, variant):
    return np.median(np.sort(baseline) / np.sort(variant))


def sorts_its_input(baseline, variant):
    baseline /= variant
    baseline.sort()
    return np.median(baseline)


def low_precision(baseline, variant):
    return float(np.float32(np.median(baseline / variant)))


def difference(baseline, variant):
    return np.median(baseline - variant)


WRONG = {
    no_op: "the result is that of the reference|The result is that of the reference",
    all_ratios: "shape",
    constant: None,
    upside_down: "divide first",
    mean: "median",
    ratio_of_medians: "pair by pair",
    ratio_of_means: None,
    ratio_of_fastest: None,
    first_pair: None,
    off_by_one: None,
    without_the_first_pair: None,
    right_on_odd_numbers_only: "an even number of pairs",
    right_on_nine_pairs_only: "15 pairs",
    sorted_apart: None,
    sorts_its_input: "leaves its inputs",
    low_precision: None,
    difference: None,
}
test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {1: (median_of_ratios, WRONG)})


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("answer", [answer for answer in WRONG if answer not in (no_op, sorts_its_input)], ids=named)
def test_no_luck_makes_a_wrong_ratio_right(answer, seed):
    with pytest.raises(CheckFailed):
        check.run(LESSON, 1, answer, seed)


def wrong_ops():
    right = pointwise.baseline

    def nothing(kind, x, shift, slope=None):
        return tf.identity(x)

    def constant(kind, x, shift, slope=None):
        return tf.ones_like(x)

    def relu_for_all(kind, x, shift, slope=None):
        return right("affine", x, shift, slope) if kind == "affine" else right("relu", x, shift)

    def no_shift(kind, x, shift, slope=None):
        return right(kind, x, 0 * shift, slope)

    def slope_for_all(kind, x, shift, slope=None):
        return slope * (x + shift) if kind == "prelu" else right(kind, x, shift, slope)

    def slope_of_x(kind, x, shift, slope=None):
        return tf.where(x + shift > 0, x + shift, slope * x) if kind == "prelu" else right(kind, x, shift, slope)

    def off_by_one(kind, x, shift, slope=None):
        return tf.roll(right(kind, x, shift, slope), 1, axis=1)

    def first_slope(kind, x, shift, slope=None):
        return right(kind, x, shift, slope if slope is None else tf.repeat(slope[:1], tf.size(slope)))

    def first_thread_only(kind, x, shift, slope=None):
        out = right(kind, x, shift, slope)
        return tf.concat([out[:64], tf.zeros_like(out[64:])], 0)

    def half(kind, x, shift, slope=None):
        return tf.cast(tf.cast(right(kind, x, shift, slope), tf.bfloat16), tf.float32)

    return [
        nothing,
        constant,
        relu_for_all,
        no_shift,
        slope_for_all,
        slope_of_x,
        off_by_one,
        first_slope,
        first_thread_only,
        half,
    ]


test_the_stock_op_passes, test_wrong_kernels_are_refused = judge(LESSON, {2: (pointwise.baseline, wrong_ops())}, kernels=True)


KERNEL = """
using namespace ctrlab;
CTRLAB_EXPORT void ctrlab_pointwise(const PointwiseInput* input, float* out, const ParallelFor* parallel_for) {
  const int64_t n = input->columns;
  (*parallel_for)(input->rows, 4 * n, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t c = 0; c < n; ++c) {
        const float x = input->x[b * n + c], p = x + input->shift[c];
        float y = p > 0 ? p : 0;
        if (input->kind == kAffine) y = input->slope[c] * x + input->shift[c];
        ANSWER
      }
    }
  });
}
"""


@pytest.mark.parametrize(
    "answer, says",
    [
        ("", "out\\[b, c\\] must be"),
        ("out[b * n + c] = y;", "prelu"),
        ("y = p > 0 ? p : input->slope[c] * p; out[b * n + c] = y;", "must read and write only what it was given"),
        ("if (input->kind == kPrelu && p < 0) y = input->slope[c] * p; out[b * n + c + 1] = y;", "heap-buffer-overflow, WRITE"),
        ("out[b * n + c] = y", "must compile"),
        ("for (;;) out[b * n + c] = y;", "must come to an end"),
    ],
    ids=["a no-op", "no PReLU", "a slope that is not there", "one number too far", "no semicolon", "no end"],
)
def test_wrong_lines_are_refused_before_they_are_swapped_in(answer, says):
    with pytest.raises(kernel_swap.KernelError, match=says):
        kernel_swap.swap("pointwise", KERNEL.replace("ANSWER", answer), seconds=2)
    assert "pointwise" not in kernel_swap.swapped()


def test_the_figure_shows_every_rung():
    shown = start_here.ladder()._repr_html_()
    assert [rung.name for rung in LADDER if rung.level != "serving" and f">{rung.name.replace('_', ' ')}<" not in shown] == []
    assert set(start_here.PART_OF) <= {rung.name for rung in LADDER if rung.level == "model"}

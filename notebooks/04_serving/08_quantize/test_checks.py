"""The checks of the lesson on rows in fewer bits against right answers and every kind of wrong one."""

import ml_dtypes
import numpy as np
import pytest
from ctrlab.lessons.topics.quantize.checks import reference_bfloat16, reference_quantize, scales_for
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check
from ctrlab.serving.rows import pack

LESSON = "04_serving/08_quantize"
quantize, bfloat16 = solved(LESSON, 1), solved(LESSON, 2)


def refuse(values, found=np.isfinite):
    if not found(values).all():
        raise ValueError("no")


def with_scales(make, most=None):
    """Quantizes by other scales, which `make` makes of rows and `most`."""

    def answer(rows, bits=8):
        refuse(rows)
        steps = most(bits) if most else 2 ** (bits - 1) - 1
        scales = np.broadcast_to(np.float32(make(rows, steps)), len(rows))
        divisors = np.where(scales == 0, 1, scales).astype(np.float64)
        return np.clip(np.rint(rows / divisors[:, None]), -128, 127).astype(np.int8), np.array(scales, np.float32)

    return answer


def with_rounding(way):
    def answer(rows, bits=8):
        _, scales = quantize(rows, bits)
        divisors = np.where(scales == 0, 1, scales).astype(np.float64)
        return way(rows / divisors[:, None]).astype(np.int8), scales

    return answer


def nothing(rows, bits=8):
    refuse(rows)
    return np.zeros(rows.shape, np.int8), np.zeros(len(rows), np.float32)


def one_more(rows, bits=8):
    q, scales = quantize(rows, bits)
    return np.where(q < 100, q + 1, q).astype(np.int8), scales


def always_8_bits(rows, bits=8):
    return quantize(rows, 8)


def divides_by_zero(rows, bits=8):
    refuse(rows)
    scales = scales_for(abs(rows).max(axis=1), 2 ** (bits - 1) - 1)
    with np.errstate(all="ignore"):
        return np.rint(rows / scales[:, None].astype(np.float64)).astype(np.int8) | 0, np.where(scales == 0, 1, scales).astype(
            "f4"
        )


def in_float16(rows, bits=8):
    q, scales = quantize(rows, bits)
    with np.errstate(over="ignore"):
        return q, scales.astype(np.float16).astype(np.float32)


def divides_in_float16(rows, bits=8):
    _, scales = quantize(rows, bits)
    with np.errstate(all="ignore"):
        q = np.nan_to_num(rows.astype(np.float16) / np.where(scales == 0, 1, scales)[:, None].astype(np.float16))
    return np.rint(np.clip(q, -127, 127)).astype(np.int8), scales


def in_int16(rows, bits=8):
    q, scales = quantize(rows, bits)
    return q.astype(np.int16), scales


def scales_in_float64(rows, bits=8):
    q, scales = quantize(rows, bits)
    return q, scales.astype(np.float64)


def a_column_of_scales(rows, bits=8):
    q, scales = quantize(rows, bits)
    return q, scales[:, None]


def only_q(rows, bits=8):
    return quantize(rows, bits)[0]


def in_place(rows, bits=8):
    q, scales = quantize(rows, bits)
    rows /= np.where(scales == 0, 1, scales)[:, None]
    return q, scales


def forgets_the_sign(rows, bits=8):
    q, scales = quantize(rows, bits)
    return abs(q), scales


def takes_anything(rows, bits=8):
    return quantize(np.nan_to_num(rows, posinf=1, neginf=-1), bits)


def takes_infinity(rows, bits=8):
    refuse(rows, lambda r: ~np.isnan(r))
    return quantize(np.clip(rows, -3e38, 3e38), bits)


def finite_by_the_sum(rows, bits=8):
    with np.errstate(over="ignore", invalid="ignore"):
        refuse(rows, lambda r: np.isfinite(abs(r).sum()))
    return quantize(rows, bits)


def another_error(rows, bits=8):
    assert np.isfinite(rows).all()
    return quantize(rows, bits)


def fails_without_rows(rows, bits=8):
    rows[0]
    return quantize(rows, bits)


def largest(rows):
    return abs(rows).max(axis=1).astype(np.float64)


QUANTIZED = dict.fromkeys((
    nothing, one_more, always_8_bits, divides_by_zero, divides_in_float16, in_int16, scales_in_float64,
    only_q, forgets_the_sign, another_error, a_column_of_scales,
)) | {
    in_float16: "smallest float32",
    with_scales(lambda rows, most: largest(rows) / most): "smallest float32",
    with_scales(lambda rows, most: abs(rows).max(initial=0) / most): "smallest float32",
    with_scales(lambda rows, most: scales_for(rows.max(axis=1), most)): "smallest float32",
    with_scales(lambda rows, most: scales_for(largest(rows), most + 1)): "smallest float32",
    with_scales(lambda rows, most: (rows.max(axis=1) - rows.min(axis=1)) / (2 * most + 1)): "smallest float32",
    with_scales(lambda rows, most: 0.01): "smallest float32",
    with_rounding(np.trunc): "half of its row's scale",
    with_rounding(np.floor): "half of its row's scale",
    with_rounding(lambda steps: np.floor(steps + 0.5)): "halfway",
    with_rounding(lambda steps: np.trunc(steps + np.copysign(0.5, steps))): "halfway",
    in_place: "leaves its inputs as they were",
    takes_anything: "refused",
    takes_infinity: "refused",
    finite_by_the_sum: "raised ValueError",
    fails_without_rows: "IndexError",
}  # fmt: skip


def by_adding(add):
    def answer(values):
        refuse(values, lambda v: ~np.isnan(v))
        bits = values.view(np.uint32)
        return ((bits.astype(np.uint64) + add(bits)) >> np.uint64(16)).astype(np.uint16)

    return answer


def cuts_off(values):
    refuse(values, lambda v: ~np.isnan(v))
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def lower_half(values):
    refuse(values, lambda v: ~np.isnan(v))
    return values.view(np.uint32).astype(np.uint16)


def float16(values):
    refuse(values, lambda v: ~np.isnan(v))
    with np.errstate(over="ignore"):
        return values.astype(np.float16).view(np.uint16)


def in_uint32(values):
    return bfloat16(values).astype(np.uint32)


def takes_nan(values):
    return bfloat16(np.nan_to_num(values, posinf=np.inf, neginf=-np.inf))


def refuses_infinity(values):
    refuse(values)
    return bfloat16(values)


def flat(values):
    return bfloat16(values).ravel()


def writes_bits(values):
    found = bfloat16(values)
    values.view(np.uint32)[...] &= 0xFFFF0000
    return found


def one_off(values):
    return bfloat16(values) + np.uint16(1)


def without_sign(values):
    return bfloat16(abs(values))


def zeros(values):
    refuse(values, lambda v: ~np.isnan(v))
    return np.zeros(values.shape, np.uint16)


def loses_denormals(values):
    return bfloat16(np.where(abs(values) < 1.2e-38, np.float32(0), values))


HALVES = dict.fromkeys((
    lower_half, float16, in_uint32, flat, one_off, without_sign, zeros, loses_denormals,
)) | {
    cuts_off: "The lower half is cut off; here",
    by_adding(lambda bits: 0x8000): "halfway",
    by_adding(lambda bits: 0x7FFF): "halfway",
    by_adding(lambda bits: 0x7FFF + (1 - (bits >> 16 & 1).astype(np.uint64))): "halfway",
    by_adding(lambda bits: 0x7FFF + (bits >> 15 & 1).astype(np.uint64)): "halfway",
    by_adding(lambda bits: 0x7FFE + (bits >> 16 & 1).astype(np.uint64)): "halfway",
    takes_nan: "refused",
    refuses_infinity: "ValueError",
    writes_bits: "leaves its inputs as they were",
}  # fmt: skip
test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {1: (quantize, QUANTIZED), 2: (bfloat16, HALVES)})


def row_by_row(rows, bits=8):
    """In float32, and with a loop."""
    refuse(rows)
    q, scales = np.zeros(rows.shape, np.int8), np.zeros(len(rows), np.float32)
    for n, row in enumerate(rows):
        scales[n] = scales_for(abs(row).max(), 2 ** (bits - 1) - 1)
        if scales[n] > 0:
            q[n] = np.rint(row / scales[n])
    return q, scales


def by_the_library(values):
    refuse(values, lambda v: ~np.isnan(v))
    return values.astype(ml_dtypes.bfloat16).view(np.uint16)


@pytest.mark.parametrize(
    "exercise, answer", [(1, reference_quantize), (1, row_by_row), (2, reference_bfloat16), (2, by_the_library)]
)
def test_other_right_answers_pass(exercise, answer):
    for seed in range(5):
        check.run(LESSON, exercise, answer, seed)


def test_the_references_are_the_packages_formats():
    rows = np.random.default_rng(1).standard_normal((50, 8)).astype(np.float32)
    q, scales = reference_quantize(rows)
    raw = pack(rows, "int8").view(np.uint8)
    np.testing.assert_array_equal(raw[:, :4].copy().view(np.float32)[:, 0], scales)
    np.testing.assert_array_equal(raw[:, 4:].copy().view(np.int8), q)
    np.testing.assert_array_equal(pack(rows, "bf16").view(np.uint16), reference_bfloat16(rows))

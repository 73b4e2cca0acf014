"""Checks of 04_serving/08_quantize: (1) rows in few bits with a scale each, (2) bfloat16, rounded to nearest even."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ctrlab.lessons.check import CheckFailed, call, parts

SLACK = 1e-6  # of a quotient in float32, where the reference has it in float64
DENORMAL = np.float32(1e-45)


def scales_for(largest: np.ndarray, most: int) -> np.ndarray:
    """The smallest scales, float32 [n], with most * scale >= largest [n]. The lesson provides this function."""
    exact = np.asarray(largest, np.float64)
    scales = (exact / most).astype(np.float32)
    return np.where(scales.astype(np.float64) * most < exact, np.nextafter(scales, np.float32(np.inf)), scales)


def reference_quantize(rows: np.ndarray, bits: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """The definition."""
    if not np.isfinite(rows).all():
        raise ValueError("Rows hold finite numbers.")
    scales = scales_for(abs(rows).max(axis=1), 2 ** (bits - 1) - 1)
    steps = rows.astype(np.float64) / np.where(scales == 0, 1, scales).astype(np.float64)[:, None]
    return np.rint(steps).astype(np.int8), scales


def reference_bfloat16(values: np.ndarray) -> np.ndarray:
    """The definition."""
    if np.isnan(values).any():
        raise ValueError("There is a NaN.")
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def check_quantize(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `quantize(rows, bits)` -> q int8 [n, D], scales float32 [n]."""
    for case, rows, bits in _tables(rng):
        case = f"{case}, {bits} bits"
        received = call(answer, rows, bits, case=case, next_step="run it by hand on such rows: a table may have no rows")
        q, scales = parts(received, "q, scales", case=case)
        n, dim = rows.shape
        _require_array("q", q, np.int8, (n, dim), case)
        _require_array("scales", scales, np.float32, (n,), case)
        _judge(rows, bits, q, scales, case)
    rows = rng.standard_normal((4, 6)).astype(np.float32)
    for odd in (np.nan, np.inf, -np.inf):
        bad = rows.copy()
        bad[rng.integers(4), rng.integers(6)] = odd
        _require_refusal(answer, bad, 8, case=f"a row that holds {odd}")
    _require_refusal(answer, np.full((1, 2), np.nan, np.float32), 8, case="a row of NaNs only")


def _judge(rows: np.ndarray, bits: int, q: np.ndarray, scales: np.ndarray, case: str) -> None:
    most = 2 ** (bits - 1) - 1
    right_q, right_scales = reference_quantize(rows, bits)
    wide, exact = scales.astype(np.float64), rows.astype(np.float64)
    for row in np.flatnonzero(~(scales == right_scales)):
        raise CheckFailed(
            f"A row's scale is the smallest float32 with {most} scale >= its largest |x|; here {case}.",
            expected=repr(right_scales[row]),
            received=repr(scales[row]),
            index=f"row {row}, largest |x| {abs(rows[row]).max()!r}",
            next_step="scales_for(largest, most) of each row's largest |x|; most is 2^(bits-1) - 1",
        )
    for row, d in np.argwhere(abs(q.astype(int)) > most):
        raise CheckFailed(
            f"No q is beyond {-most} to {most}; here {case}.",
            expected=f"{right_q[row, d]}",
            received=f"{q[row, d]}",
            index=f"row {row}, number {d}: {rows[row, d]!r}",
            next_step="divide by the row's scale; a row of zeros has scale 0 and q 0",
        )
    for row, d in np.argwhere(abs(exact - wide[:, None] * q) > wide[:, None] / 2 * (1 + SLACK * most)):
        raise CheckFailed(
            f"No number is off by more than half of its row's scale; here {case}.",
            expected=f"q = {right_q[row, d]}, within {wide[row] / 2:.3g} of {rows[row, d]!r}",
            received=f"q = {q[row, d]}, off by {abs(exact[row, d] - wide[row] * q[row, d]):.3g}",
            index=f"row {row}, number {d}",
            next_step="round to the nearest whole number: np.rint, and not astype, which cuts off",
        )
    steps = exact / np.where(wide == 0, 1, wide)[:, None]
    tied = abs(steps - np.floor(steps) - 0.5) == 0
    for row, d in np.argwhere(tied & (q != right_q)):
        raise CheckFailed(
            f"A number halfway between two steps goes to the even one; here {case}.",
            expected=f"{right_q[row, d]}",
            received=f"{q[row, d]}",
            index=f"row {row}, number {d}: {steps[row, d]} steps",
            next_step="np.rint rounds to nearest even; floor(x + 0.5) does not",
        )


def _tables(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, int]]:
    """The cases: (description, rows, bits)."""

    def draw(n: int, dim: int, size: float = 1.0) -> np.ndarray:
        return (size * rng.standard_normal((n, dim))).astype(np.float32)

    n, dim = (int(v) for v in rng.integers(5, 30, 2))
    for bits in (8, 6, 5, 4, 3, 2):
        yield "random rows", draw(n, dim), bits
    yield "rows of different sizes", draw(n, dim) * np.exp(rng.uniform(-20, 20, (n, 1))).astype(np.float32), 8
    yield "negative numbers only", -abs(draw(n, dim)), 8
    yield "positive numbers only", abs(draw(n, dim)), 8
    yield "a column that is larger than the others", draw(n, 4) * np.float32([100, 1, 1, 1]), 8
    zeros = draw(6, 5)
    zeros[rng.integers(6)] = 0
    yield "a row of zeros among others", zeros, 8
    yield "rows of zeros, some of them -0", np.float32([[0, 0, 0], [0, -0.0, 0]]), 8
    yield "denormal numbers", rng.integers(-300, 300, (8, 5)).astype(np.float32) * DENORMAL, 8
    yield "the smallest denormal numbers", np.float32([[1, 0, -1], [0, 0, 2], [3, -1, 0]]) * DENORMAL, 8
    huge = draw(5, 6)
    huge[rng.integers(5), rng.integers(6)] = 1e38 * rng.choice([-1, 1])
    yield "one huge number", huge, 8
    yield "one number per row", draw(9, 1), 8
    yield "one row", draw(1, int(rng.integers(2, 40))), 8
    yield "no rows", draw(0, 5), 8
    yield "equal numbers", np.full((2, 4), rng.standard_normal(), np.float32), 8
    scale = np.float32(2.0 ** rng.integers(-8, 8))
    for bits in (8, 4):
        most = 2 ** (bits - 1) - 1
        halves = rng.integers(-most, most, (6, 9)) + 0.5
        yield "numbers halfway between two steps", (np.hstack([np.full((6, 1), most), halves]) * scale).astype(np.float32), bits


def check_bfloat16(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 2: `bfloat16(values)` -> uint16, the upper halves of float32's bits, rounded."""
    for case, values in _numbers(rng):
        received = call(answer, values, case=case, next_step="run it by hand on such numbers")
        _require_array("the result", received, np.uint16, values.shape, case)
        expected = reference_bfloat16(values)
        for at in np.argwhere(received != expected):
            at = tuple(at)
            bits = int(values.view(np.uint32)[at])
            cut = received[at] == bits >> 16
            raise CheckFailed(
                f"A number goes to the nearest bfloat16, and from halfway to the even one; here {case}.",
                expected=f"0x{expected[at]:04x}",
                received=f"0x{received[at]:04x}",
                index=f"{tuple(map(int, at))}: {values[at]!r}, in bits 0x{bits:08x}",
                next_step="you cut the lower half off; add to it before you shift"
                if cut
                else "add 0x7fff and the last bit that stays, then shift by 16; all of it in uint32",
            )
    for case, bits in (("a NaN", 0x7FC00000), ("a NaN whose upper half is infinity's", 0x7F800001), ("-NaN", 0xFFFFFFFF)):
        values = rng.standard_normal((3, 4)).astype(np.float32)
        values.view(np.uint32)[rng.integers(3), rng.integers(4)] = bits
        _require_refusal(answer, values, case=case)


def _numbers(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    """The cases: (description, float32)."""

    def of(bits) -> np.ndarray:
        return np.asarray(bits, np.uint32).view(np.float32)

    yield "random rows", rng.standard_normal((int(rng.integers(2, 20)), int(rng.integers(2, 20)))).astype(np.float32)
    yield "random bits", of(rng.integers(0, 0x7F800000, 400) | rng.choice([0, 1 << 31], 400))
    upper = rng.integers(0x3F00, 0x4100, (50, 1)) << 16
    yield "numbers halfway between two", of(upper + 0x8000)
    yield "numbers next to halfway", of(upper + np.array([[0x7FFF, 0x8001]]))
    yield "numbers that are bfloat16 already", of(upper)
    yield "numbers that round up to the next power of two", of([0x3FFFFFFF, 0x3FFF8000, 0xBFFFC000, 0x0000FFFF])
    yield "zeros, -0 too", np.float32([0, -0.0])
    yield "denormal numbers", rng.integers(-40_000, 40_000, 50).astype(np.float32) * DENORMAL
    yield "infinities", np.float32([np.inf, -np.inf])
    yield "the largest numbers, which become infinite", of([0x7F7FFFFF, 0xFF7FFFFF, 0x7F7F8000])
    yield "numbers below the largest", of([0x7F7F7FFF, 0xFF7F0000])
    yield "no numbers", np.zeros((0, 3), np.float32)
    yield "a transposed table", rng.standard_normal((5, 3)).astype(np.float32).T


def _require_array(name: str, received, dtype: type, shape: tuple, case: str) -> None:
    found = (getattr(received, "dtype", type(received).__name__), getattr(received, "shape", "no shape"))
    if found != (np.dtype(dtype), shape):
        raise CheckFailed(
            f"Within the budget: {name} is {np.dtype(dtype).name} {list(shape)}; here {case}.",
            expected=f"{np.dtype(dtype).name} {shape}",
            received=f"{found[0]} {found[1]}",
            next_step="astype gives the type, and each row has one scale",
        )


def _require_refusal(answer: Callable, *inputs, case: str) -> None:
    try:
        answer(*inputs)
        received: object = "a result"
    except ValueError:
        return
    except NotImplementedError:
        raise
    except Exception as error:
        received = f"{type(error).__name__}: {error}"
    raise CheckFailed(
        f"What has no place in the format is refused; here {case}.",
        expected="ValueError",
        received=received,
        next_step="raise ValueError before anything is computed",
    )


CHECKS = {1: check_quantize, 2: check_bfloat16}

"""Checks of 04_serving/08_quantize: (1) rows in few bits with a scale each, (2) bfloat16, rounded to nearest even."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ctrlab.lessons.check import CheckFailed, parts
from ctrlab.lessons.exercise import Exercise

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


def shifted_after(added: int) -> Callable[[np.ndarray], np.ndarray]:
    """A mistake: another number is added before the shift."""
    return lambda values: ((values.view(np.uint32) + np.uint32(added)) >> 16).astype(np.uint16)


def quantized(received: object, expected: tuple[np.ndarray, np.ndarray], case: str, question: Sequence) -> None:
    """Scales exactly; then each q, by the rule that it breaks."""
    (rows, bits), (right_q, right_scales) = question, expected
    q, scales = parts(received, "q, scales", case=case)
    _require_array("q", q, right_q, case)
    _require_array("scales", scales, right_scales, case)
    most = 2 ** (bits - 1) - 1
    for row in np.flatnonzero(~(scales == right_scales)):
        raise CheckFailed(
            f"A row's scale is the smallest float32 with {most} scale >= its largest |x|; here {case}.",
            expected=f"{right_scales[row]:.9g}",
            received=f"{scales[row]:.9g}",
            index=f"row {row}, largest |x| {abs(rows[row]).max()!r}",
            next_step="scales_for(largest, most) of each row's largest |x|; most is 2^(bits-1) - 1",
        )
    exact, wide = rows.astype(np.float64), scales.astype(np.float64)[:, None]
    steps, off = exact / np.where(wide == 0, 1, wide), abs(exact - wide * q)
    tied = abs(steps - np.floor(steps) - 0.5) == 0
    to_even = "np.rint rounds to nearest even; floor(x + 0.5) does not"
    cut = np.array_equal(q, np.trunc(steps).astype(q.dtype))
    to_nearest = "astype alone cuts off" if cut else "divide in float32 or wider, and round to the nearest whole number"
    for rule, broken, next_step in (
        (f"No q is beyond {-most} to {most}", abs(q.astype(int)) > most, "divide by the row's scale; a row of zeros has q 0"),
        ("No number is off by more than half of its row's scale", off > wide / 2 * (1 + SLACK * most), to_nearest),
        ("A number halfway between two steps goes to the even one", tied & (q != right_q), to_even),
    ):
        for row, d in np.argwhere(broken):
            raise CheckFailed(
                f"{rule}; here {case}.",
                expected=f"q = {right_q[row, d]}",
                received=f"q = {q[row, d]}, off by {off[row, d]:.3g}",
                index=f"row {row}, number {d}: {rows[row, d]!r}, which is {steps[row, d]} times the scale",
                next_step=next_step,
            )


def _bad_rows(rng: np.random.Generator) -> Iterator[tuple]:
    for odd in (np.nan, np.inf, -np.inf):
        rows = rng.standard_normal((4, 6)).astype(np.float32)
        rows[rng.integers(4), rng.integers(6)] = odd
        yield f"a row that holds {odd}", rows, 8
    yield "a row of NaNs only", np.full((1, 2), np.nan, np.float32), 8


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
    yield "rows whose sum no float32 holds", np.float32(3e38) * rng.choice(np.float32([1, 1, -1]), (4, 6)), 8
    yield "one number per row", draw(9, 1), 8
    yield "one row", draw(1, int(rng.integers(2, 40))), 8
    yield "no rows", draw(0, 5), 8
    yield "equal numbers", np.full((2, 4), rng.standard_normal(), np.float32), 8
    scale = np.float32(2.0 ** rng.integers(-8, 8))
    for bits in (8, 4):
        most = 2 ** (bits - 1) - 1
        halves = rng.integers(-most, most, (6, 9)) + 0.5
        yield "numbers halfway between two steps", (np.hstack([np.full((6, 1), most), halves]) * scale).astype(np.float32), bits


def rounded(received: object, expected: np.ndarray, case: str, question: Sequence) -> None:
    _require_array("the result", received, expected, case)
    for at in map(tuple, np.argwhere(received != expected)):
        value, bits = question[0][at], int(question[0].view(np.uint32)[at])
        raise CheckFailed(
            f"A number goes to the nearest bfloat16, and from halfway to the even one; here {case}.",
            expected=f"0x{expected[at]:04x}",
            received=f"0x{received[at]:04x}",
            index=f"{tuple(map(int, at))}: {value!r}, in bits 0x{bits:08x}",
            next_step="when must the upper half of this number go up, and what makes a carry exactly then?",
        )


def _nans(rng: np.random.Generator) -> Iterator[tuple]:
    for case, bits in (("a NaN", 0x7FC00000), ("a NaN whose upper half is infinity's", 0x7F800001), ("-NaN", 0xFFFFFFFF)):
        values = rng.standard_normal((3, 4)).astype(np.float32)
        values.view(np.uint32)[rng.integers(3), rng.integers(4)] = bits
        yield case, values


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


def _require_array(name: str, received: object, right: np.ndarray, case: str) -> None:
    found = (getattr(received, "dtype", type(received).__name__), getattr(received, "shape", "no shape"))
    if found != (right.dtype, right.shape):
        raise CheckFailed(
            f"Within the budget: {name} is {right.dtype.name} {list(right.shape)}; here {case}.",
            expected=f"{right.dtype.name} {right.shape}",
            received=f"{found[0]} {found[1]}",
            next_step="astype gives the type, and each row has one scale",
        )


@dataclass(frozen=True)
class Refuses:
    """A limit: the answer raises ValueError for what has no place in the format."""

    cases: Callable[[np.random.Generator], Iterator[tuple]]

    def __call__(self, answer: Callable, rng: np.random.Generator) -> None:
        for case, *inputs in self.cases(rng):
            try:
                answer(*inputs)
                received = "a result"
            except ValueError:
                continue
            except Exception as error:
                received = f"{type(error).__name__}: {error}"
            rule, step = (
                f"What has no place in the format is refused; here {case}.",
                "raise ValueError before anything is computed",
            )
            raise CheckFailed(rule, expected="ValueError", received=received, next_step=step)


CHECKS = {
    1: Exercise(
        asks="quantize(rows, bits): float32 [n, D], 2 to 8 -> q int8 [n, D], scales float32 [n]",
        cases=lambda rng: ((f"{case}, {bits} bits", rows, bits) for case, rows, bits in _tables(rng)),
        reference=reference_quantize,
        compare=quantized,
        limits=[Refuses(_bad_rows)],
        run_it="run it by hand on such rows: a table may have no rows",
    ),
    2: Exercise(
        asks="bfloat16(values): float32 -> uint16 of the same shape, the upper halves of the bits, rounded to nearest even",
        cases=_numbers,
        reference=reference_bfloat16,
        compare=rounded,
        limits=[Refuses(_nans)],
        mistakes={
            "These are the bits of float16": lambda values: values.astype(np.float16).view(np.uint16),
            "The lower half is cut off": shifted_after(0),
            "What is halfway goes away from zero": shifted_after(0x8000),
            "What is halfway goes towards zero": shifted_after(0x7FFF),
            "What has bits in the lower half goes away from zero": shifted_after(0xFFFF),
        },
        run_it="run it by hand on such numbers",
    ),
}

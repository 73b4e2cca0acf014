"""Checks of 01_baseline/02_click_data: (1) the Zipf exponent of a column, (2) the row splits of a column of joined lists."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from ctrlab.lessons.exercise import Close, Exercise, Number
from ctrlab.lessons.limits import NoLoop, Traced

TOLERANCE = 1e-6
MOST_STEPS = 5_000  # of the interpreter, lines and calls; polyfit itself takes some hundred
MANY = 20_000


def zipf_exponent(counts: np.ndarray, least: int) -> float:
    """The definition: minus the slope of the least-squares line of log count over log rank, over counts of `least` or more."""
    often = np.sort(counts[counts >= least])[::-1].astype(np.float64)
    if len(often) < 2:
        return float("nan")
    x, y = np.log(np.arange(1.0, len(often) + 1)), np.log(often)
    x -= x.mean()
    return float(-(x @ y) / (x @ x))


def columns(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, int]]:
    """The cases: (description, counts int64 [V], least): random columns, then those that break a careless answer."""
    for exponent in rng.uniform(0.3, 2.5, 4):
        ids = int(rng.integers(50, 500))
        counts = rng.poisson(2_000 * np.arange(1.0, ids + 1) ** -exponent) + 1
        yield "counts in any order, with a tail of rare ids", rng.permutation(counts), int(rng.integers(3, 20))
    some = int(rng.integers(20, 100))
    yield "ids that all come equally often", np.full(some, some), 10
    yield "counts that just reach `least`", rng.permutation(np.repeat([9, 10, 11, 900], 5)), 10
    yield "a column of two frequent ids", np.array([some, 3, 7 * some]), 10
    yield "only one id that is frequent enough (so: nan)", np.array([1, some, 2]), 10
    yield "ids that all come once (so: nan)", np.ones(some, np.int64), 10
    yield "a column without any id (so: nan)", np.zeros(0, np.int64), 10


def lists(rng: np.random.Generator) -> Iterator[tuple[str, list[list[str]]]]:
    """The cases: (description, rows of entries): random ones, then those that break a careless answer."""
    for _ in range(3):
        yield "random lists", random_lists(rng, int(rng.integers(2, 9)), 5)
    one = entry(rng)
    yield "rows of one entry, so without any separator", [[one], [one + "0"], [one]]
    yield "empty texts, which are empty lists", [[], [one], [], [], [one, one], []]
    yield "entries that are empty", [[one, "", one], [], ["", ""], ["", one]]
    yield "nothing but empty texts", [[], []]
    yield "a batch of one row", [[one] * int(rng.integers(2, 6))]
    yield "a batch of no rows", []


def entry(rng: np.random.Generator) -> str:
    """A word of 1 to 8 hexadecimal digits."""
    return f"{rng.integers(0, 16 ** int(rng.integers(1, 9))):x}"


def random_lists(rng: np.random.Generator, rows: int, longest: int) -> list[list[str]]:
    return [[entry(rng) for _ in range(rng.integers(0, longest + 1))] for _ in range(rows)]


def packed(rows: list[list[str]], before: str = "", behind: str = "") -> tuple[tf.Tensor, tf.Tensor]:
    """(text uint8 [n], offsets int64 [B + 1]) of the joined lists, with other text around them."""
    texts = [";".join(row) for row in rows]
    offsets = len(before) + np.cumsum([0, *map(len, texts)])
    data = (before + "".join(texts) + behind).encode()
    return tf.constant(np.frombuffer(data, np.uint8)), tf.constant(offsets, tf.int64)


def splits_of(rows: list[list[str]]) -> np.ndarray:
    """The definition: where each row's entries begin among all entries, and where the last row's end; int64 [B + 1]."""
    return np.cumsum([0, *map(len, rows)], dtype=np.int64)


def joined(rng: np.random.Generator) -> Iterator[tuple[str, list[list[str]], str, str]]:
    """The cases: (description, rows of entries, the text before them, the text behind)."""
    for case, rows in lists(rng):
        yield case, rows, "", ""
    rows = random_lists(rng, int(rng.integers(2, 6)), 4)
    yield "a stretch from the middle of a longer text, so offsets[0] is not 0", rows, "a;b;", ";c"


ENTRIES = 200


def same_length(rng: np.random.Generator) -> tuple[tf.Tensor, tf.Tensor]:
    """Texts of LETTERS bytes in all."""
    return packed([["abcde"] * n for n in rng.permutation(np.repeat([0, 3, 7], ENTRIES // 10))])


LETTERS = ENTRIES // 10 * (3 * 5 + 2 + 7 * 5 + 6)
ONE_PASS = Traced(
    rule="one pass over the text: no tensor longer than it, no loop over rows, in Python or in the graph",
    largest_elements=LETTERS + 1,
    on=same_length,
    of=f"{3 * (ENTRIES // 10)} texts of {LETTERS:,} bytes in all",
    next_step="count the separators of the whole text in one go, not row by row or byte by byte",
)
CHECKS = {
    1: Exercise(
        asks="zipf_exponent(counts, least): int64 [V] in any order -> float, nan where fewer than two ids are left",
        cases=columns,
        reference=zipf_exponent,
        compare=Number(
            "The exponent is that of the line which fits the logarithms best",
            "which counts stay, and which has rank 1? For two counts, work the slope out by hand",
            rtol=TOLERANCE,
            atol=TOLERANCE,
            shown=lambda counts, least: f"least={least}",
        ),
        limits=[NoLoop("ids", many=MANY, most=MOST_STEPS, on=lambda rng: (rng.integers(10, 1_000, MANY), 10))],
    ),
    2: Exercise(
        asks="row_splits(text, offsets): uint8 [n], int64 [B + 1] -> int64 [B + 1]",
        cases=joined,
        reference=lambda rows, before, behind: splits_of(rows),
        given=packed,
        compare=Close("a row has one entry more than separators between its offsets, but an empty text has none", dtype=np.int64),
        limits=[ONE_PASS],
        afterwards=lambda rng: [("300 rows", random_lists(rng, 300, 6), "", "")],
    ),
}

"""Checks of 02_ops/06_sequence_parsing: (1) many columns hashed in one chain of ops, (2) the learner's own kernel of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.exercise import Close, Exercise, Ragged
from ctrlab.lessons.limits import Traced
from ctrlab.ops.parsing import ids, numbers
from ctrlab.schema import MultiHot, Numeric, NumericList


def texts(rng: np.random.Generator) -> Iterator[tuple[str, list[list[str]], str, int]]:
    """The cases: (description, k columns of B texts, the separator, buckets)."""
    for case, columns, separator in _texts(rng):
        yield case, columns, separator, int(rng.integers(2, 1_000_000))


def _texts(rng: np.random.Generator) -> Iterator[tuple[str, list[list[str]], str]]:
    """The cases: (description, columns, the separator): random ones, then those that break a careless answer."""
    for separator in (";", "|", "\x02"):
        rows = int(rng.integers(2, 9))
        yield "random lists", [[_list(rng, separator) for _ in range(rows)] for _ in range(3)], separator
    word = _word(rng)
    yield "empty texts", [["", word, ""], [word, "", ""]], ";"
    yield "no part in the whole batch", [["", ""], ["", ""]], ";"
    yield "parts that are empty", [[f";{word};;{word};", ";;"], [word, f"{word};"]], ";"
    yield "the same word several times", [[f"{word};{word}"], [word]], ";"
    yield "one column", [[word, f"{word};a"]], ";"
    yield "a batch of one row", [[word], [f"a;{word}"], [""]], ";"
    yield "a batch of no rows", [[], []], ";"
    yield "words of up to a hundred letters", [["x" * int(rng.integers(1, 100)) for _ in range(4)] for _ in range(2)], ";"


def _word(rng: np.random.Generator) -> str:
    return f"{rng.integers(0, 2**32):08x}"


def _list(rng: np.random.Generator, separator: str) -> str:
    return separator.join(_word(rng) for _ in range(rng.integers(0, 7)))


def hashed(columns: list[list[str]], separator: str, buckets: int) -> list[list[int]]:
    """The definition: the first column's rows come first."""
    column = MultiHot("all", separator=separator, buckets=buckets)
    return ids.OP.reference([column], [[text for column in columns for text in column]])[0]


def lists_of_numbers(rng: np.random.Generator) -> Iterator[tuple[str, list, list]]:
    """The cases: (description, columns, their values)."""
    price, hours = NumericList("price"), NumericList("hours", separator="|", transform="minmax", low=0.0, high=23.0)
    for _ in range(3):
        rows = int(rng.integers(2, 9))
        values = [_numbers(rng, column.separator, rows) for column in (price, hours)]
        single = tf.constant(rng.standard_normal(rows), tf.float32)
        yield "random lists and single numbers", [price, Numeric("n"), hours], [values[0], single, values[1]]
    number = f"{rng.uniform(1, 99):.3f}"
    for case, rows in (
        ("texts without any number", ["", number, ""]),
        ("parts that are empty", [f";{number};;1;", ";;"]),
        ("minus, exponents and white space", [f"-{number}; 1e2", "0x10;\t.5"]),
        ("a batch of no rows", []),
    ):
        yield case, [price], [tf.constant(rows, tf.string)]
    yield "lists that came as numbers", [price], [tf.ragged.constant([[1.5, 2], [], [3]], tf.float32, row_splits_dtype=tf.int64)]


def _numbers(rng: np.random.Generator, separator: str, rows: int) -> tf.Tensor:
    return tf.constant([separator.join(f"{x:.2f}" for x in rng.uniform(-9, 99, rng.integers(0, 9))) for _ in range(rows)])


def refuses_no_number(answer: Callable, rng: np.random.Generator) -> None:
    bad = tf.constant(["1", "2;x", "3", "y"])
    try:
        answer([NumericList("price")], [bad])
    except tf.errors.InvalidArgumentError as error:
        received = str(error.message)
    else:
        received = "no error"
    if "'x' in row 1" not in received:
        raise CheckFailed(
            "What is no number is refused, and the first such cell is named.",
            expected="an error that names 'x' in row 1",
            received=received,
            next_step="where do you learn that a part is no number, and which of several such cells does `*fault` name?",
        )


ONE_CHAIN = Traced(
    rule="one split and one hash for all columns",
    ops={"StringSplit": 1, "StringToHashBucket": 1},
    of="6 columns of 16 texts",
    on=lambda rng: ([tf.constant([_list(rng, ";") for _ in range(16)]) for _ in range(6)], ";", 1_000),
    next_step="tf.concat(columns, axis=0), before the split",
)
NO_STRINGS = Traced(
    rule="no string is made: no split in the graph",
    ops={"StringSplit": 0, "StringToNumber": 0},
    on=lambda rng: ([NumericList("price")], [tf.constant(["1;2"])]),
    of="one column",
    next_step="answer with numbers.fused",
)
CHECKS = {
    1: Exercise(
        asks="hash_together(columns, separator, buckets): k string [B] -> ragged int64 [k * B, (L)]",
        cases=texts,
        reference=hashed,
        given=lambda columns, *rest: ([tf.constant(column, tf.string) for column in columns], *rest),
        compare=Ragged(
            "an empty text has no part, and keeps its row; the columns stand below each other, the first column's rows come first"
        ),
        limits=[ONE_CHAIN],
        run_it="does each step of `stock` work on one long column?",
    ),
    2: Exercise(
        asks="the op `answer(columns, values)` with the learner's kernel inside: float32 [B, C]",
        kernel="parse_numbers",
        cases=lists_of_numbers,
        reference=numbers.OP.reference,
        compare=Close("the mean is over parts that are not empty, 0 of none"),
        limits=[refuses_no_number, NO_STRINGS],
    ),
}

"""Checks of 02_ops/06_sequence_parsing: (1) many columns hashed in one chain of ops, (2) the learner's own kernel of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from ctrlab.lessons.budget import Budget
from ctrlab.lessons.check import CheckFailed, call, require_close
from ctrlab.lessons.own_kernel import on_own
from ctrlab.ops.parsing import ids, numbers
from ctrlab.schema import MultiHot, Numeric, NumericList

ONE_CHAIN = Budget(
    rule="one split and one hash for all columns",
    ops={"StringSplit": 1, "StringToHashBucket": 1},
)
NO_STRINGS = Budget(rule="no string is made: no split in the graph", ops={"StringSplit": 0, "StringToNumber": 0})


def texts(rng: np.random.Generator) -> Iterator[tuple[str, list[list[str]], str]]:
    """(what it is, k columns of B texts, the separator): random ones, then those that break a careless answer."""
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


def check_hash_together(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `hash_together(columns, separator, buckets)`, k string [B] -> ragged int64 [k * B, (L)]."""
    for case, columns, separator in texts(rng):
        buckets = int(rng.integers(2, 1_000_000))
        given = [tf.constant(column, tf.string) for column in columns]
        received = call(
            answer, given, separator, buckets, case=case, next_step="does each step of `stock` work on one long column?"
        )
        if not isinstance(received, tf.RaggedTensor):
            raise CheckFailed(
                f"The result is one ragged tensor; here {case}.",
                expected="RaggedTensor",
                received=type(received).__name__,
                next_step="put the columns below each other first; then there is one result",
            )
        column = MultiHot("all", separator=separator, buckets=buckets)
        rows = ids.OP.reference([column], [[text for column in columns for text in column]])[0]
        lengths = np.array([len(row) for row in rows], np.int64)
        flat = np.array([id_ for row in rows for id_ in row], np.int64)
        require_close(
            received.row_lengths(), lengths, case=f"{case}, the lengths", next_step="drop empty parts, keep rows", rtol=0
        )
        require_close(received.flat_values, flat, case=f"{case}, the ids", next_step="the first column's rows come first", rtol=0)
    columns = [tf.constant([_list(rng, ";") for _ in range(16)]) for _ in range(6)]
    ONE_CHAIN.enforce(answer, columns, ";", 1_000, next_step="tf.concat(columns, axis=0), before the split")


def lists_of_numbers(rng: np.random.Generator) -> Iterator[tuple[str, list, list]]:
    """(what it is, columns, their values)."""
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


def check_kernel(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 2: the op `answer(columns, values)` with the learner's kernel inside, against the reference."""
    answer = on_own("parse_numbers", answer)
    for case, columns, values in lists_of_numbers(rng):
        received = call(answer, columns, values, case=case, next_step="does it crash with our kernel too?")
        expected = numbers.OP.reference(columns, values).astype(np.float32)
        require_close(received, expected, case=case, next_step="the mean is over parts that are not empty, 0 of none")
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
            next_step="set *fault to {c, b} where ParseFloat returns false, once",
        )
    NO_STRINGS.enforce(answer, [NumericList("price")], [tf.constant(["1;2"])], next_step="answer with numbers.fused")


CHECKS = {1: check_hash_together, 2: check_kernel}

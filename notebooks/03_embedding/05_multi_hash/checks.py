"""Checks of 03_embedding/05_multi_hash: (1) quotient-remainder embeddings, added, (2) binary-code embeddings, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from ctrlab.embedding import multihash
from ctrlab.embedding.choices import BinaryCode, QuotientRemainder
from ctrlab.embedding.multihash import Parts
from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.exercise import Close, Each, Exercise, tensors
from ctrlab.lessons.limits import Traced
from ctrlab.schema import RAW_IDS

IDS = 256
Cut = Callable[..., Parts]
"""Draws how the tables are cut: (rng, large) -> parts. The cost is taken on large ones."""


def two_tables(rng: np.random.Generator, large: bool = False) -> Parts:
    m, q = (50, 40) if large else (int(n) for n in rng.choice(np.arange(2, 40), 2, replace=False))
    dim = 5 if large else int(rng.integers(1, 9))
    return Parts((m, q), (dim, dim), "add", QuotientRemainder())


def blocks(rng: np.random.Generator, large: bool = False) -> Parts:
    n, bits = (4, 9) if large else (int(rng.integers(2, 5)), int(rng.integers(1, 6)))  # 36 bits, if large
    return Parts((2**bits,) * n, tuple(int(d) for d in rng.integers(1, 5, n)), "concat", BinaryCode(blocks=n))


def ids_of(rng: np.random.Generator, cut: Cut) -> Iterator[tuple[str, Parts, np.ndarray]]:
    """The cases without tables: (description, how the tables are cut, ids)."""
    for _ in range(3):
        made = cut(rng)
        yield "ids below the number of codes", made, rng.integers(0, made.codes, 40)
    ends = [RAW_IDS - 1, 0, 2**53 + 1]
    yield "fingerprints up to 2^63 - 2", cut(rng, large=True), np.append(rng.integers(0, RAW_IDS, 30), ends)
    made = cut(rng)
    yield "each code once, and the first again", made, np.arange(min(made.codes, 2_000) + 1) % made.codes
    yield "one id, many times", cut(rng), np.full(7, int(rng.integers(RAW_IDS)))
    yield "no id at all", cut(rng), np.zeros(0, np.int64)


def cases(rng: np.random.Generator, cut: Cut) -> Iterator[tuple[str, Parts, np.ndarray, list[np.ndarray]]]:
    """The cases: (description, how the tables are cut, ids, tables)."""
    for case, made, ids in ids_of(rng, cut):
        tables = [rng.standard_normal(shape).astype(np.float32) for shape in zip(made.rows, made.dims)]
        yield f"{case}; tables of {' and '.join(map(str, made.rows))} rows", made, ids, tables


def reference(made: Parts, ids: np.ndarray, tables: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The definition: the ids' embeddings, and the gradient of each table if that of every number is 1."""
    gradients = [np.zeros_like(table) for table in tables]
    for gradient, keys in zip(gradients, multihash.reference_keys(made, ids)):
        np.add.at(gradient, keys, 1.0)
    return multihash.reference(made, tables, ids), gradients


def with_gradients(answer: Callable) -> Callable:
    """The answer's rows, and the gradient of each table; None if it has none."""

    def asked(ids: tf.Tensor, tables: list[tf.Tensor]) -> tuple[object, list]:
        with tf.GradientTape() as tape:
            tape.watch(tables)
            rows = answer(ids, tables)
        found = tape.gradient(rows, tables) if tf.is_tensor(rows) else [None] * len(tables)
        return rows, [None if gradient is None else tf.convert_to_tensor(gradient) for gradient in found]

    return asked


def exercise(asks: str, cut: Cut, gathers: int, width: int, step: str) -> Exercise:
    """An exercise on `answer(ids, tables)`. Of large parts it takes so many gathers, and makes embeddings of at most `width`."""

    def trained(received, expected, case: str, question: Sequence) -> None:
        if received is None:
            rule, gather = f"Each table is trained; here {case}.", "read rows with tf.gather: no NumPy, no .numpy()"
            raise CheckFailed(rule, expected="a gradient of the table", received="no gradient", next_step=gather)
        Close(step)(received, expected, case, question)

    def large(rng: np.random.Generator) -> tuple[tf.Tensor, list[tf.Tensor]]:
        made = cut(rng, large=True)
        return tf.constant(rng.integers(0, RAW_IDS, IDS)), [tf.zeros(shape) for shape in zip(made.rows, made.dims)]

    budget = Traced(
        rule="a gather a table, and nothing larger than the embeddings",
        ops={"Gather": gathers},
        largest_elements=width * IDS,
        on=large,
        of=f"{IDS} ids",
        next_step="one tf.gather a table",
    )
    return Exercise(
        asks=asks,
        cases=lambda rng: cases(rng, cut),
        reference=reference,
        given=lambda made, ids, tables: tensors(ids, tables),
        ask=with_gradients,
        compare={"rows": Close(step), "gradients": Each("gradient", trained)},
        limits=[budget],
    )


CHECKS = {
    1: exercise(
        "quotient_remainder(ids, tables): int64 [n], [m, D] and [q, D] -> float32 [n, D], the sum of a row of each",
        two_tables,
        gathers=2,
        width=5,
        step="m and q are the tables' numbers of rows; % and // work on int64 tensors",
    ),
    2: exercise(
        "binary_code(ids, tables): int64 [n], n tables [2^b, D_k] -> float32 [n, sum of D_k], rows side by side",
        blocks,
        gathers=4,
        width=16,
        step="block k is the bits k b to k b + b - 1, the lowest first: id // 2^(k b) % 2^b",
    ),
}

"""Checks of 03_embedding/05_multi_hash: (1) quotient-remainder embeddings, added, (2) binary-code embeddings, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from ctrlab.embedding import multihash
from ctrlab.embedding.choices import BinaryCode, QuotientRemainder
from ctrlab.embedding.multihash import Parts
from ctrlab.lessons.budget import Budget
from ctrlab.lessons.check import CheckFailed, call, require_close
from ctrlab.schema import RAW_IDS

IDS = 256


def cases(rng: np.random.Generator, parts: Callable[[bool], Parts]) -> Iterator[tuple[str, Parts, np.ndarray]]:
    """The cases: (description, how the tables are cut, ids); `parts(large)` cuts some."""
    for _ in range(3):
        made = parts(False)
        yield "ids below the number of codes", made, rng.integers(0, made.codes, 40)
    yield "fingerprints up to 2^63 - 2", parts(True), np.append(rng.integers(0, RAW_IDS, 30), [RAW_IDS - 1, 0, 2**53 + 1])
    made = parts(False)
    yield "each code once, and the first again", made, np.arange(min(made.codes, 2_000) + 1) % made.codes
    yield "one id, many times", parts(False), np.full(7, int(rng.integers(RAW_IDS)))
    yield "no id at all", parts(False), np.zeros(0, np.int64)


def check_parts(answer: Callable, rng: np.random.Generator, parts: Callable[[bool], Parts], budget: Budget, step: str) -> None:
    """`answer(ids, tables)` against the reference: values, and the gradient of each table."""
    for case, made, ids in cases(rng, parts):
        tables = [tf.constant(rng.standard_normal(shape), tf.float32) for shape in zip(made.rows, made.dims)]
        with tf.GradientTape() as tape:
            tape.watch(tables)
            received = call(answer, tf.constant(ids, tf.int64), tables, case=case)
        if not tf.is_tensor(received):
            raise CheckFailed(
                f"The answer is a tensor, so that its gradient finds the tables; here {case}.",
                expected="tf.Tensor",
                received=type(received).__name__,
                next_step="read rows with tf.gather: no NumPy, no .numpy()",
            )
        expected = multihash.reference(made, tables, ids).astype(np.float32)
        require_close(received, expected, case=f"{case}; tables of {' and '.join(map(str, made.rows))} rows", next_step=step)
        for k, (gradient, keys) in enumerate(zip(tape.gradient(received, tables), multihash.reference_keys(made, ids))):
            right = np.zeros((made.rows[k], made.dims[k]), np.float32)
            np.add.at(right, keys, 1.0)
            if gradient is None:
                raise CheckFailed(
                    f"Each table is trained; here {case}.",
                    expected=f"a gradient of table {k}",
                    received="none",
                    next_step="read rows with tf.gather: no NumPy, no .numpy()",
                )
            require_close(tf.convert_to_tensor(gradient), right, case=f"{case}; the gradient of table {k}", next_step=step)
    made = parts(True)
    tables = [tf.zeros(shape) for shape in zip(made.rows, made.dims)]
    budget.enforce(answer, tf.constant(rng.integers(0, RAW_IDS, IDS)), tables, next_step="one tf.gather a table")


def check_quotient_remainder(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `quotient_remainder(ids, tables)`, the sum of a row of each of two tables."""

    def parts(large: bool) -> Parts:
        m, q = (50, 40) if large else (int(n) for n in rng.choice(np.arange(2, 40), 2, replace=False))
        dim = 5 if large else int(rng.integers(1, 9))
        return Parts((m, q), (dim, dim), "add", QuotientRemainder())

    budget = Budget(rule="two gathers and nothing larger than the embeddings", ops={"Gather": 2}, largest_elements=5 * IDS)
    check_parts(answer, rng, parts, budget, "m and q are the tables' numbers of rows; % and // work on int64 tensors")


def check_binary_code(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 2: `binary_code(ids, tables)`, rows of n tables of 2^b rows side by side."""

    def parts(large: bool) -> Parts:
        n, bits = (4, 9) if large else (int(rng.integers(2, 5)), int(rng.integers(1, 6)))  # 36 bits, if large
        return Parts((2**bits,) * n, tuple(int(d) for d in rng.integers(1, 5, n)), "concat", BinaryCode(blocks=n))

    budget = Budget(rule="a gather a table, and nothing larger than the embeddings", ops={"Gather": 4}, largest_elements=16 * IDS)
    step = "block k is the bits k b to k b + b - 1, the lowest first: id // 2^(k b) % 2^b"
    check_parts(answer, rng, parts, budget, step)


CHECKS = {1: check_quotient_remainder, 2: check_binary_code}

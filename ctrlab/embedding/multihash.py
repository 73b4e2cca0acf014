"""Multi-hash embeddings: an id's embedding combines one row from each of a few small tables.

    quotient-remainder   keys  i mod m,  (i div m) mod q
    binary code          keys  the n b lowest bits of i, in n blocks of b bits:
                               succession: block k is bits k b, k b + 1, ...     skip: bits k, k + n, k + 2 n, ...
    add, multiply        e(i) = the sum (product) over the parts k of  table_k[key_k(i)],  all D wide
    concat               e(i) = their rows side by side, D numbers together

A hashed table is the case of one part, i mod rows. A code is an id's tuple of keys. The number of codes is the product of the
parts' rows, so two tables of 2,500 rows tell 6 million ids apart: more than a hashed table of twenty times their size. But ids
that share one key share that key's row: ids share parts of their embedding, and rarely all of it.

Ids are whole numbers in [0, 2^63). Fingerprints (see `ctrlab.schema.RAW_IDS`) map to codes as if at random. Ids that are
numbers with a meaning do not collide at all as long as there are enough codes.

Source: Shi et al., KDD 2020 (quotient-remainder); Yan et al., CIKM 2021 (binary code; here each block has a table of its own, and
combined by add, multiply or concat, with no weights between them).
"""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ctrlab.embedding.choices import BinaryCode, Choice, Hashed, QuotientRemainder
from ctrlab.errors import CtrlabError

Ids = tf.Tensor | tf.RaggedTensor


@dataclass(frozen=True)
class Parts:
    """The parts of one table.

    Attributes:
        rows, dims: number of rows, and numbers per row, of each part's table.
        operation: "add", "multiply" or "concat".
        choice: how the keys are made; the keys of a plain hashed table are the ids.
    """

    rows: tuple[int, ...]
    dims: tuple[int, ...]
    operation: str
    choice: Choice

    @property
    def codes(self) -> int:
        """The largest number of ids that the parts can tell apart."""
        return math.prod(self.rows)

    @property
    def size(self) -> int:
        """Number of weights in all parts' tables."""
        return sum(rows * dim for rows, dim in zip(self.rows, self.dims))

    def names(self, table: str) -> list[str]:
        """The names of the parts' tables."""
        return [table] if len(self.rows) == 1 else [f"{table}_part_{k}" for k in range(len(self.rows))]

    def deviation(self, of_embedding: float) -> float:
        """The standard deviation of initial weights in the parts that gives the embeddings the wanted one."""
        n = len(self.rows)
        return {"add": of_embedding / math.sqrt(n), "multiply": of_embedding ** (1 / n), "concat": of_embedding}[self.operation]


def parts(choice: Choice, buckets: int, dim: int) -> Parts:
    """The parts of a table for `buckets` ids, D = `dim`.

    Raises:
        CtrlabError: the table is too small to be split: each part needs two rows, and one number per row.

    >>> parts(QuotientRemainder(compression=20), 100_000, 16).rows
    (2500, 2500)
    >>> parts(BinaryCode(rows=5_000, operation="concat", blocks=4), 100_000, 16).dims
    (4, 4, 4, 4)
    """
    if isinstance(choice, Hashed):
        return Parts((choice.rows or buckets,), (dim,), "concat", choice)
    n = choice.blocks if isinstance(choice, BinaryCode) else 2
    concat = choice.operation == "concat"
    budget = choice.budget(buckets)
    rows = budget * n if concat else budget  # a row of a concatenated part has only dim / n numbers
    if rows < 2 * n or (concat and dim < n):
        raise CtrlabError(
            f"{n} parts need two rows each, and at least one number per row; received {budget} rows of D = {dim} for {choice}."
        )
    # A block has a whole number of bits, so its table may be smaller than its share of the budget.
    sizes = (2 ** int(math.log2(rows // n)),) * n if isinstance(choice, BinaryCode) else (rows - rows // 2, rows // 2)
    dims = tuple(dim // n + (k < dim % n) for k in range(n)) if concat else (dim,) * n
    return Parts(sizes, dims, choice.operation, choice)


def reference_keys(parts: Parts, ids) -> list[np.ndarray]:
    """The definition in NumPy: for each part, the keys int64 [n] of ids int64 [n].

    >>> reference_keys(parts(QuotientRemainder(rows=20), 100, 4), [7, 12, 112])
    [array([7, 2, 2]), array([0, 1, 1])]
    """
    ids = np.asarray(ids, np.int64)
    if isinstance(parts.choice, QuotientRemainder):
        m, q = parts.rows
        return [ids % m, ids // m % q]
    if isinstance(parts.choice, BinaryCode):
        n, length = len(parts.rows), int(math.log2(parts.rows[0]))
        bits = [ids >> place & 1 for place in range(n * length)]
        blocks = [bits[k::n] if parts.choice.order == "skip" else bits[k * length : (k + 1) * length] for k in range(n)]
        return [sum(bit << place for place, bit in enumerate(block)) for block in blocks]
    return [ids if parts.choice.rows is None else ids % parts.choice.rows]


def reference(parts: Parts, tables, ids) -> np.ndarray:
    """The definition in NumPy, float64: embeddings [n, D] of ids int64 [n] from the parts' tables."""
    rows = [np.asarray(table, np.float64)[keys] for table, keys in zip(tables, reference_keys(parts, ids))]
    if parts.operation == "concat":
        return np.concatenate(rows, axis=1)
    return functools.reduce(operator.add if parts.operation == "add" else operator.mul, rows)


def keys(parts: Parts, ids: Ids) -> list[Ids]:
    """For each part, the keys of int64 ids, [B] or ragged [B, (L)], as in `reference_keys`."""
    if isinstance(ids, tf.RaggedTensor):
        return [ids.with_flat_values(part) for part in keys(parts, ids.flat_values)]
    if isinstance(parts.choice, QuotientRemainder):
        m, q = parts.rows
        return [ids % m, ids // m % q]
    if isinstance(parts.choice, BinaryCode):
        return _blocks(ids, len(parts.rows), int(math.log2(parts.rows[0])), parts.choice.order)
    return [ids if parts.choice.rows is None else ids % parts.choice.rows]


def _blocks(ids: tf.Tensor, n: int, length: int, order: str) -> list[tf.Tensor]:
    if order == "succession":
        return [tf.bitwise.bitwise_and(tf.bitwise.right_shift(ids, k * length), 2**length - 1) for k in range(n)]
    places = tf.range(n * length, dtype=tf.int64)
    bits = tf.bitwise.bitwise_and(tf.bitwise.right_shift(ids[:, None], places), 1)  # [N, n * length]
    apart = tf.reshape(bits, (-1, length, n)) * 2 ** tf.range(length, dtype=tf.int64)[:, None]  # bit k + j n is [:, j, k]
    return tf.unstack(tf.reduce_sum(apart, 1), n, axis=1)


def join(parts: Parts, rows: list[tf.Tensor]) -> tf.Tensor:
    """The embeddings [n, D] from each part's rows [n, D]; concatenated parts arrive as one tensor already."""
    return functools.reduce(tf.add if parts.operation == "add" else tf.multiply, rows)


def collision_rate(keys) -> float:
    """The fraction of distinct ids that share all their keys with another id.

    Args:
        keys: for each part, the keys int64 [n] of n distinct ids.
    """
    if not len(keys[0]):
        return 0.0
    code = np.zeros(len(keys[0]), np.int64)
    for part in keys:  # codes are renumbered at each part, so that no product overflows
        _, part = np.unique(part, return_inverse=True)
        _, code = np.unique(code * (part.max() + 1) + part, return_inverse=True)
    return float(np.mean(np.bincount(code)[code] > 1))


def expected_collision_rate(ids: int, codes: int) -> float:
    """The expected `collision_rate` of `ids` ids spread evenly over `codes` codes: 1 - (1 - 1 / codes)^(ids - 1).

    An id does not collide if none of the others has its code.

    >>> round(expected_collision_rate(10_000_000, 50_000_000), 2)
    0.18
    """
    return -math.expm1((ids - 1) * math.log1p(-1 / codes)) if codes > 1 else float(ids > 1)

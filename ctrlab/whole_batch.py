"""The batch of a step that several workers share, for code that needs the whole batch and not single examples.

    loss                   mean over the examples of all workers         `mean`
    batch normalization    moments over the examples of all workers      `moments`
    a norm of the batch    sum over all workers                          `total`
    a penalty on weights   counted once, though each worker has it       `once`
    a dropout mask         this worker's part of the whole batch's       `part_of`

If a process trains alone, its batch is the whole one, and each of these functions is the plain TensorFlow op. A `SharedBatch` of
`ctrlab.distributed` implements them for workers, together with the lookup of rows and the sum of gradients.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class Shard:
    """This worker's part of everything that is sharded by key: `index` of `count`."""

    index: int = 0
    count: int = 1

    @property
    def whole(self) -> bool:
        return self.count == 1

    def rows(self, rows: int) -> int:
        """The number of a table's rows on this worker: those with row % count == index."""
        return len(range(self.index, rows, self.count))


WHOLE = Shard()


class SharedBatch(ABC):
    """A batch of which this worker has some examples, while a step on it is traced. Every worker traces the same calls.

    Attributes:
        shard: this worker's index, and the number of workers.
        rows: int64 [workers], the number of examples of each worker; None in a forward pass outside of training.
    """

    shard: Shard
    rows: tf.Tensor | None

    @abstractmethod
    def total(self, x: tf.Tensor) -> tf.Tensor:
        """The sum over all workers; every worker gets the same bits. Its gradient is the sum of all workers' gradients."""

    @abstractmethod
    def gathered(self, x: tf.Tensor) -> tf.Tensor:
        """Stacks the `x` of all workers, [workers, ...]; the shapes must be equal. The gradient goes back to each worker."""

    @abstractmethod
    def lookup(self, read: Callable, tables: Sequence, columns: Sequence, layout, counted: bool) -> list[tf.Tensor]:
        """The result of `read(tables, columns, layout)` for tables that are sharded over the workers.

        Args:
            counted: whether `read` takes `times`, the number of occurrences of each key of a column.
        """

    @abstractmethod
    def reduced(self, gradients: list, variables: Sequence) -> list:
        """The gradients; for variables that every worker has whole, the sum over all workers."""


_shard: ContextVar[Shard] = ContextVar("shard", default=WHOLE)
_batch: ContextVar[SharedBatch | None] = ContextVar("batch", default=None)


@contextlib.contextmanager
def sharded(shard: Shard) -> Iterator[None]:
    """A context in which a newly built model gets only its shard of each table."""
    before = _shard.set(shard)
    try:
        yield
    finally:
        _shard.reset(before)


def shard() -> Shard:
    """The shard of its tables that a layer gets if it is built now."""
    return _shard.get()


@contextlib.contextmanager
def over(shared: SharedBatch | None) -> Iterator[None]:
    """A context in which traced code works on that batch; None: on this process's own batch."""
    before = _batch.set(shared)
    try:
        yield
    finally:
        _batch.reset(before)


def batch() -> SharedBatch | None:
    return _batch.get()


def total(x: tf.Tensor) -> tf.Tensor:
    """The sum of all workers' `x`, which must have equal shapes and dtypes."""
    shared = batch()
    return x if shared is None else shared.total(x)


def mean(x: tf.Tensor) -> tf.Tensor:
    """float32 [B, ...] -> this worker's term of the mean over all numbers of the whole batch: the terms' sum is the mean."""
    shared = batch()
    if shared is None:
        return tf.reduce_mean(x)
    each = tf.cast(tf.math.reduce_prod(tf.shape(x)[1:]), x.dtype)  # numbers of an example
    return tf.reduce_sum(x) / (tf.cast(tf.reduce_sum(shared.rows), x.dtype) * each)


def weighted(mean: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """This worker's term of the mean over the items of all workers, from the mean over its own `count` items."""
    shared = batch()
    if shared is None:
        return mean
    count = tf.cast(count, mean.dtype)
    return mean * tf.math.divide_no_nan(count, shared.total(count))


def moments(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """float32 [B, n] -> mean and variance, [n] each, over the rows of the whole batch.

    Workers exchange their own moments, which are joined without the cancellation of sums of squares:

        Chan, Golub & LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979.
    """
    shared = batch()
    if shared is None:
        return tf.nn.moments(x, axes=[0])
    rows = tf.cast(tf.shape(x)[0], x.dtype)
    own_mean = tf.math.divide_no_nan(tf.reduce_sum(x, 0), rows)
    own_squares = tf.reduce_sum(tf.square(x - own_mean), 0)
    of_all = shared.gathered(tf.stack([own_mean, own_squares]))  # [W, 2, n]
    means, squares = of_all[:, 0], of_all[:, 1]
    counts = tf.cast(shared.rows, x.dtype)[:, None]
    everyone = tf.reduce_sum(counts)
    joined = tf.reduce_sum(counts * means, 0) / everyone
    return joined, tf.reduce_sum(squares + counts * tf.square(means - joined), 0) / everyone


def rows(x: tf.Tensor) -> tf.Tensor:
    """The number of rows of the whole batch, int64, of which this worker has `x`, [B, ...]."""
    shared = batch()
    return tf.shape(x, tf.int64)[0] if shared is None else tf.reduce_sum(shared.rows)


def reduced(gradients: list, variables: Sequence) -> list:
    """The gradients of the whole batch's loss; for sharded variables, those of this worker's rows."""
    shared = batch()
    return gradients if shared is None else shared.reduced(gradients, variables)


def once(term: tf.Tensor) -> tf.Tensor:
    """Scales a term of the loss that every worker computes from whole weights, so that all workers together count it once."""
    shared = batch()
    return term if shared is None else term / shared.shard.count


def part_of(draw: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor, axis: int = 0) -> tf.Tensor:
    """This worker's part of `draw(shape)`; `shape` is the shape of `x` in the whole batch, whose examples lie on `axis`."""
    shared, shape = batch(), tf.shape(x)
    if shared is None:
        return draw(shape)
    rows = tf.cast(shared.rows, tf.int32)
    along = tf.one_hot(axis, x.shape.rank, dtype=tf.int32)
    drawn = draw(shape * (1 - along) + tf.reduce_sum(rows) * along)
    return tf.slice(drawn, tf.reduce_sum(rows[: shared.shard.index]) * along, shape)


def is_sharded(variable) -> bool:
    """Whether each worker has only its own rows of a Keras variable."""
    return getattr(variable, "sharded", False)

"""A step of real workers, in which a learner's two functions exchange the rows of the growing tables.

    worker   ids of the columns --> ask --> keys by owner --+                        rows --> each id's place --> outputs
    owner                                                   +--> each key once, its row --+
             merge: one gradient per key <-- gradients <----------------------------------+

`ctrlab.distributed.exchange` does the same in TensorFlow ops. Here NumPy does it, so that the learner's functions can run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from ctrlab.distributed import collectives
from ctrlab.ops import lookup
from ctrlab.ops.lookup import Ids, Layout, flat_ids
from ctrlab.whole_batch import SharedBatch

Ask = Callable[[np.ndarray, int], tuple[Sequence[np.ndarray], np.ndarray]]
"""(ids int64 [n], workers) -> (the distinct keys of each owner, each id's place among them all)."""
Merge = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""(keys int64 [n], gradients float32 [n, D]) -> (the distinct keys, rising; the sum of each one's gradients)."""

FIELDS = 3
"""The numbers that are sent per key: the key, the number of its table, and its number of occurrences; 0 marks padding."""


class Exchanged:
    """The exchanges of a worker with others so far.

    Attributes:
        keys: number of keys that it requested from others. rows: number of rows that it sent to others.
    """

    def __init__(self):
        self.keys = self.rows = 0

    def bytes(self, dim: int) -> int:
        """The bytes that must be sent to others: keys, rows, and the gradients of received rows. Padding, and each key's table
        and number of occurrences, are not counted.
        """
        return 8 * self.keys + 4 * dim * (self.rows + self.keys)


class ByHand(SharedBatch):
    """A worker's part of a step: sums as in `inner`, a `SharedStep`, and lookups by the learner's functions."""

    def __init__(self, inner, ask: Ask, merge: Merge, exchanged: Exchanged):
        self.inner, self.shard, self.rows = inner, inner.shard, inner.rows
        self._ask, self._merge, self._exchanged = ask, merge, exchanged

    def total(self, x: tf.Tensor) -> tf.Tensor:
        return self.inner.total(x)

    def gathered(self, x: tf.Tensor) -> tf.Tensor:
        return self.inner.gathered(x)

    def reduced(self, gradients: list, variables: Sequence) -> list:
        return self.inner.reduced(gradients, variables)

    def lookup(self, read: Callable, tables: Sequence, columns: Sequence[Ids], layout: Layout, counted: bool) -> list:
        if not counted:  # tables of a few rows, which don't grow
            return self.inner.lookup(read, tables, columns, layout, counted)
        me, workers, dim = self.shard.index, self.shard.count, tables[0].dim
        flat = [flat_ids(column) for column in columns]
        ids = [tf.concat([each for each, t in zip(flat, layout.table_of) if t == n], 0) for n in range(len(tables))]
        asked, to_each, *places = _numpy(self._asked, ids, [(None, FIELDS), (workers,), *[(None,)] * len(tables)])
        all_sent = self.inner.total(tf.one_hot(me, workers, dtype=tf.int64)[:, None] * to_each)  # [from, to]
        size, number = collectives.padded(tf.reduce_max(all_sent))

        # Place of each key in the buffer [owner, size].
        owner = tf.repeat(tf.range(workers, dtype=tf.int64), to_each)
        rank = tf.range(tf.shape(asked, tf.int64)[0]) - tf.gather(tf.cumsum(to_each, exclusive=True), owner)
        slot = owner * tf.cast(size, tf.int64) + rank
        came = self._sent(slot, asked, size, number)
        slots, row_of, keys, ends, *distinct = _numpy(
            lambda came: self._came(came.reshape(workers, -1, FIELDS), len(tables)),
            [came],
            [(None,), (None,), (None,), (len(tables),), *[(None, 2)] * len(tables)],
        )
        each_row = Layout(tuple(range(len(tables))), ("rows",) * len(tables), tuple(range(len(tables))))
        lists = [_list(each[:, 0]) for each in distinct]
        found = tf.concat(read(tables, lists, each_row, times=[each[:, 1] for each in distinct]), 0)

        @tf.custom_gradient
        def to_all(rows):  # a row for each worker that asked
            def merged(gradients):
                return tf.ensure_shape(tf.numpy_function(self._merged, [keys, ends, gradients], tf.float32), [None, dim])

            return tf.gather(rows, row_of), merged

        back = self._sent(slots, to_all(found), size, number)
        rows = tf.gather(back, slot)  # of the distinct keys of all tables
        columns = [_like(column, place) for column, place in zip(columns, _split(places, flat, layout))]
        return lookup.best_stock([rows] * len(tables), columns, layout)

    def _sent(self, slot: tf.Tensor, x: tf.Tensor, size: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        """Exchanges x [u, n], whose rows are put into their slots; returns the received rows, [workers * size, n]."""
        workers, width = self.shard.count, x.shape[1]
        buffer = tf.scatter_nd(slot[:, None], x, tf.cast([workers * size, width], tf.int64))
        return tf.reshape(self.inner.exchanged(tf.reshape(buffer, [workers, size, width]), number), [-1, width])

    def _asked(self, *ids: np.ndarray) -> list[np.ndarray]:
        """The requests, [u, FIELDS], ordered by owner; their number per owner; and per table, each id's place among them."""
        workers = self.shard.count
        by_table = [self._ask(each, workers) for each in ids]
        sizes = np.array([[len(keys) for keys in parts] for parts, _ in by_table])  # [table, owner]
        begins = (np.cumsum(sizes.T.ravel()) - sizes.T.ravel()).reshape(workers, -1)  # [owner, table]
        asked, places = np.zeros((sizes.sum(), FIELDS), np.int64), []
        for t, (parts, place) in enumerate(by_table):
            rows = np.concatenate([begin + np.arange(size) for begin, size in zip(begins[:, t], sizes[t])])
            times = np.bincount(place, minlength=len(rows))
            asked[rows] = np.stack([np.concatenate(parts), np.full(len(rows), t), times], 1)
            places.append(rows[place])
        to_each = sizes.sum(0)
        self._exchanged.keys += int(to_each.sum() - to_each[self.shard.index])
        return [asked, to_each, *places]

    def _came(self, came: np.ndarray, tables: int) -> list[np.ndarray]:
        """[from, size, FIELDS] -> slots, the row, and the key of each request, ordered by table; where each table's requests end;
        by table its distinct keys, with how often each came."""
        self._exchanged.rows += int(np.count_nonzero(np.delete(came, self.shard.index, 0)[:, :, 2]))
        flat = came.reshape(-1, FIELDS)
        slots = np.flatnonzero(flat[:, 2])
        slots = slots[np.argsort(flat[slots, 1], kind="stable")]
        ends, rows, distinct, begin = np.cumsum(np.bincount(flat[slots, 1], minlength=tables)), [], [], 0
        for requests in np.split(flat[slots], ends[:-1]):
            keys, place = np.unique(requests[:, 0], return_inverse=True)
            rows.append(begin + place)
            distinct.append(np.stack([keys, np.bincount(place, requests[:, 2], len(keys)).astype(np.int64)], 1))
            begin += len(keys)
        return [slots, np.concatenate(rows), flat[slots, 0], ends, *distinct]

    def _merged(self, keys: np.ndarray, ends: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """The gradients of the owner's distinct keys, table after table."""
        parts = zip(np.split(keys, ends[:-1]), np.split(gradients, ends[:-1]))
        return np.concatenate([self._merge(*part)[1] for part in parts])


def _numpy(function: Callable, inputs: Sequence[tf.Tensor], shapes: Sequence[tuple]) -> list[tf.Tensor]:
    """`function` of arrays as an op with int64 outputs of these shapes."""
    found = tf.numpy_function(
        lambda *given: [np.asarray(each, np.int64) for each in function(*given)], inputs, [tf.int64] * len(shapes)
    )
    return [tf.ensure_shape(each, shape) for each, shape in zip(found, shapes)]


def _like(column: Ids, values: tf.Tensor) -> Ids:
    return column.with_flat_values(values) if isinstance(column, tf.RaggedTensor) else values


def _list(keys: tf.Tensor) -> tf.RaggedTensor:
    """A column of one example."""
    return tf.RaggedTensor.from_row_splits(keys, tf.stack([0, tf.size(keys, tf.int64)]), validate=False)


def _split(places: Sequence[tf.Tensor], flat: Sequence[tf.Tensor], layout: Layout) -> list[tf.Tensor]:
    """The places of each column's ids, from those of each table's."""
    found: list = [None] * len(flat)
    for t, place in enumerate(places):
        columns = [c for c, of in enumerate(layout.table_of) if of == t]
        for c, part in zip(columns, tf.split(place, [tf.size(flat[c]) for c in columns], num=len(columns))):
            found[c] = part
    return found

"""Lookups in tables that are sharded by key: ids go to their owner, rows come back; the gradients take the same way.

    worker   ids of the columns --> distinct keys, with how often each came --+                       compact tables --> outputs
    owner                                                                     +--> rows of its shard --+

A worker sends each key once, however many of its examples have it, so the bytes are those of the distinct keys and their rows.
On the compact tables, the distinct keys' rows, the columns are looked up as ever. The owner's lookup is that of one process, too:
its gradient merges what several workers send for a key, and the optimizer steps each row once, where it lies.

    dense table           row r       worker r mod W, row r div W of its shard
    embedding variable    key         worker hash(key) mod W

Source: the model-parallel embeddings of Naumov et al., "Deep Learning Training in Facebook Data Centers", 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from ctrlab.distributed import collectives
from ctrlab.embedding.variable import EmbeddingVariable
from ctrlab.ops import lookup
from ctrlab.ops.lookup import Ids, Layout
from ctrlab.splitmix import GOLDEN
from ctrlab.whole_batch import SharedBatch


def rows_of(batch: SharedBatch, read: Callable, tables: Sequence, columns: Sequence[Ids], layout: Layout, counted: bool) -> list:
    """See `SharedBatch.lookup`."""
    distinct = [_distinct(columns, layout, t) for t in range(len(tables))]
    compact: list = [None] * len(tables)
    for dim in dict.fromkeys(map(_dim, tables)):
        group = [t for t, table in enumerate(tables) if _dim(table) == dim]
        chosen = [tables[t] for t in group]
        for t, rows in zip(group, _fetched(batch, read, chosen, [distinct[t] for t in group], counted)):
            compact[t] = rows
    places: list = [None] * len(columns)
    for each in distinct:
        for c, place in each.places.items():
            places[c] = columns[c].with_flat_values(place) if isinstance(columns[c], tf.RaggedTensor) else place
    return lookup.best_stock(compact, places, layout)


@dataclass(frozen=True)
class _Distinct:
    """The distinct keys of a table's columns.

    Attributes:
        keys, times: int64 [u], in the order in which they came, and how often.
        places: {column: int64 [n], for each of its ids the place of its key, or -1}.
    """

    keys: tf.Tensor
    times: tf.Tensor
    places: dict[int, tf.Tensor]


def _distinct(columns: Sequence[Ids], layout: Layout, table: int) -> _Distinct:
    members = [c for c, t in enumerate(layout.table_of) if t == table]
    ids = [columns[c].flat_values if isinstance(columns[c], tf.RaggedTensor) else columns[c] for c in members]
    known = {c: tf.where(each >= 0)[:, 0] for c, each in zip(members, ids) if c in layout.unknown}
    asked = [tf.gather(each, known[c]) if c in known else each for c, each in zip(members, ids)]
    keys, places, times = tf.unique_with_counts(tf.concat(asked, 0), out_idx=tf.int64)
    parts = dict(zip(members, tf.split(places, [tf.size(each) for each in asked], num=len(asked))))
    for c, each in zip(members, ids):
        if c in known:
            parts[c] = tf.scatter_nd(known[c][:, None], parts[c] + 1, tf.shape(each, tf.int64)) - 1
    return _Distinct(keys, times, parts)


def _fetched(batch: SharedBatch, read: Callable, tables: Sequence, distinct: Sequence[_Distinct], counted: bool) -> list:
    """The rows of each table's distinct keys, float32 [u, D] each, from their owners."""
    dim = _dim(tables[0])
    me, workers = batch.shard.index, batch.shard.count
    sizes = [tf.size(each.keys) for each in distinct]
    table_of = tf.repeat(tf.range(len(tables)), sizes)  # of each key
    owners, keys = (tf.concat(each, 0) for each in zip(*(_owned(t, d.keys, workers) for t, d in zip(tables, distinct))))
    sent = tf.math.bincount(owners * len(tables) + table_of, minlength=workers * len(tables), maxlength=workers * len(tables))
    sent = tf.reshape(sent, [1, workers, len(tables)])
    all_sent = batch.total(tf.one_hot(me, workers, dtype=tf.int32)[:, None, None] * sent)  # [from, to, table]
    size, number = collectives.padded(tf.reduce_max(tf.reduce_sum(all_sent, 2)))

    # Place in the buffer [to, size]: an owner's keys one after the other, in the order of the tables.
    order = tf.argsort(owners, stable=True)
    to_each = tf.reduce_sum(all_sent[me], 1)
    rank = tf.range(tf.size(owners)) - tf.repeat(tf.cumsum(to_each, exclusive=True), to_each)
    place = tf.scatter_nd(order[:, None], tf.gather(owners, order) * size + rank, tf.shape(owners))  # of each key
    out = tf.stack([keys, tf.concat([each.times for each in distinct], 0)], 1) if counted else keys[:, None]  # [u, 1 or 2]
    buffer = tf.scatter_nd(place[:, None], out, [workers * size, 1 + counted])
    came = batch.exchanged(tf.reshape(buffer, [workers, size, 1 + counted]), number)

    # What came: from each worker its keys in the order of the tables; sorted by table, one column for each.
    from_each = all_sent[:, me]  # [from, table]
    taken = tf.where(tf.reshape(tf.sequence_mask(tf.reduce_sum(from_each, 1), size), [-1]))[:, 0]
    of_table = tf.repeat(tf.tile(tf.range(len(tables)), [workers]), tf.reshape(from_each, [-1]))
    taken = tf.gather(taken, tf.argsort(of_table, stable=True))
    asked = tf.gather(tf.reshape(came, [-1, 1 + counted]), taken)  # [r, 1 or 2]
    columns = tf.split(tf.cast(asked, tf.int64), tf.reduce_sum(from_each, 0), num=len(tables))
    times = {"times": [column[:, 1] for column in columns]} if counted else {}
    each_row = Layout(tuple(range(len(tables))), ("rows",) * len(tables), tuple(range(len(tables))))
    found = tf.concat(read(tables, [_list(column[:, 0]) for column in columns], each_row, **times), 0)  # [r, D]

    back = tf.scatter_nd(taken[:, None], found, tf.cast([workers * size, dim], tf.int64))
    back = batch.exchanged(tf.reshape(back, [workers, size, dim]), number)
    rows = tf.gather(tf.reshape(back, [-1, dim]), place)  # [u, D]
    return tf.split(rows, sizes, num=len(tables))


def _list(keys: tf.Tensor) -> tf.RaggedTensor:
    """A column with one example, for columns of different lengths have the same examples."""
    return tf.RaggedTensor.from_row_splits(keys, tf.stack([0, tf.size(keys, tf.int64)]), validate=False)


def _dim(table) -> int:
    return table.dim if isinstance(table, EmbeddingVariable) else table.shape[1]


def _owned(table, keys: tf.Tensor, workers: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The owner of each key, int32 [u], and the key by which the owner knows it: int64, or int32 of a dense table."""
    if isinstance(table, EmbeddingVariable):
        return tf.cast(_hash(keys) % tf.constant(workers, tf.uint64), tf.int32), keys
    return tf.cast(keys % workers, tf.int32), tf.cast(keys // workers, tf.int32)


def _hash(keys: tf.Tensor) -> tf.Tensor:
    """int64 [n] -> uint64 [n]: `ctrlab.embedding.initial_values.hash_keys`, by which a table's shards are told apart."""

    def shifted(x: tf.Tensor, bits: int) -> tf.Tensor:
        return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(bits, tf.uint64)))

    x = tf.bitcast(keys, tf.uint64) + tf.constant(int(GOLDEN), tf.uint64)
    x = shifted(x, 30) * tf.constant(0xBF58476D1CE4E5B9, tf.uint64)
    x = shifted(x, 27) * tf.constant(0x94D049BB133111EB, tf.uint64)
    return shifted(x, 31)

"""Lookups in tables that are sharded by key: ids go to their owner, rows come back, and the gradients go to the owner.

    worker   ids of the columns --> distinct keys, with how often each came --+                       compact rows --> outputs
    owner                                                                     +--> rows of its shard --+

A worker sends each key once, even if many of its examples have it, so the bytes are those of the distinct keys and their rows.
The columns are then looked up in these compact rows as usual. The owner's lookup is the same as in one process: its gradient
merges the gradients that several workers send for a key, and the optimizer steps each row once, on its owner.

    dense table           row r       worker r mod W, row r div W of its shard
    embedding variable    key         worker hash(key) mod W

Source: the model-parallel embeddings of Naumov et al., "Deep Learning Training in Facebook Data Centers", 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import tensorflow as tf

from ctrlab import _native
from ctrlab.distributed import collectives
from ctrlab.embedding.variable import EmbeddingVariable
from ctrlab.ops.lookup import Ids, Layout, flat_ids, in_rows


def rows_of(batch, read: Callable, tables: Sequence, columns: Sequence[Ids], layout: Layout, counted: bool) -> list:
    """See `SharedBatch.lookup`. Tables of one dimension exchange their rows together.

    Args:
        batch: a `SharedStep`. Rows and their gradients travel as its `rows_as`; the owner sums gradients in float32.
    """
    dims = list(dict.fromkeys(map(_dim, tables)))
    group_of = [dims.index(_dim(tables[t])) for t in layout.table_of]
    compact, places = [], [*columns]
    for group in range(len(dims)):
        members = [c for c, of in enumerate(group_of) if of == group]
        chosen = [t for t in range(len(tables)) if dims.index(_dim(tables[t])) == group]
        table_of = [chosen.index(layout.table_of[c]) for c in members]
        rows, found = _fetched(
            batch, read, [tables[t] for t in chosen], [flat_ids(columns[c]) for c in members], table_of, counted
        )
        compact.append(rows)
        for c, place in zip(members, found):
            places[c] = columns[c].with_flat_values(place) if isinstance(columns[c], tf.RaggedTensor) else place
    return in_rows(compact, places, replace(layout, table_of=tuple(group_of)))


def _fetched(
    batch, read: Callable, tables: Sequence, ids: Sequence[tf.Tensor], table_of: Sequence[int], counted: bool
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """The distinct keys' rows, float32 [u, D], from their owners; and for each id the place of its key's row, or -1."""
    ops, dim, me, workers = _native.library().ops, _dim(tables[0]), batch.shard.index, batch.shard.count
    grows = isinstance(tables[0], EmbeddingVariable)
    asked = ops.ctrlab_asked_keys(ids=ids, T=len(tables), workers=workers, table_of=table_of, grows=grows)
    counts = batch.gathered(asked.counts)  # [from, to, table]
    size, number = collectives.padded(tf.reduce_max(tf.reduce_sum(counts, 2)))
    # [u, 2], of each key: its owner, and its number among those that the owner is asked for
    slots = tf.where(tf.sequence_mask(tf.reduce_sum(asked.counts, 1), size))
    keys = asked.keys if grows else tf.cast(asked.keys, tf.int32)  # a dense table's rows are below 2^31
    sent = tf.stack([keys, asked.times], 1) if counted else keys[:, None]  # [u, 1 or 2]
    came = batch.exchanged(tf.scatter_nd(slots, sent, [workers, size, 1 + counted]), number)

    mine = ops.ctrlab_keys_by_table(came=tf.cast(came, tf.int64), counts=counts[:, me], T=len(tables))
    wanted = [tf.RaggedTensor.from_row_splits(*each, validate=False) for each in zip(mine.keys, mine.splits)]
    each_row = Layout(tuple(range(len(tables))), ("rows",) * len(tables), tuple(range(len(tables))))
    found = tf.concat(read(tables, wanted, each_row, **({"times": mine.times} if counted else {})), 0)  # [r, D]

    back = tf.scatter_nd(mine.slots, found, tf.cast([workers * size, dim], tf.int64))
    back = batch.exchanged(tf.cast(tf.reshape(back, [workers, size, dim]), batch.rows_as), number)
    return tf.gather_nd(tf.cast(back, tf.float32), slots), asked.places


def _dim(table) -> int:
    return table.dim if isinstance(table, EmbeddingVariable) else table.shape[1]

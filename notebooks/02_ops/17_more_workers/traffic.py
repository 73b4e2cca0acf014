"""The least traffic of a step of several workers: the bound with which measured bytes are compared.

    gradients of the dense weights   2 (W - 1) / W * 4 bytes of each number    a ring all-reduce
    distinct keys of other workers   4 bytes each; of a variable 16,           once, to their owners
                                     with how often each came
    their rows, their gradients      4 D bytes each                            once each way

Source: Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ctrlab import whole_batch
from ctrlab.embedding.initial_values import hash_keys
from ctrlab.embedding.variable import EmbeddingVariable
from ctrlab.ops.lookup import flat_ids
from ctrlab.plain import Plain
from ctrlab.whole_batch import Shard, SharedBatch

FLOAT = 4
"""Bytes of a number."""


@dataclass(frozen=True)
class Traffic(Plain):
    """The least bytes that a worker sends per step, the mean over the workers.

    Attributes:
        dense: bytes of the gradients that all workers need.
        keys: bytes of the ids of rows that others hold.
        rows: bytes of those rows, sent by their owners.
        row_gradients: bytes of the gradients that the owners get back.
        distinct: the number of distinct keys in a worker's part of the batch, those of its own rows and of other workers'.
    """

    dense: float
    keys: float
    rows: float
    row_gradients: float
    distinct: float

    @property
    def bytes(self) -> float:
        return self.dense + self.keys + self.rows + self.row_gradients


def least(build: Callable[[], object], parts: Sequence[Mapping[str, tf.Tensor]]) -> Traffic:
    """The least traffic of a step.

    Args:
        build: makes the model.
        parts: the features of each worker's examples.
    """
    workers = len(parts)
    # Worker 0's shards are the largest, so they have a row wherever another worker's have one.
    with whole_batch.sharded(Shard(0, workers)):
        model = build()
    dense = sum(v.shape.num_elements() for v in model.trainable_variables if not whole_batch.is_sharded(v))
    counted = [_Counted(Shard(index, workers)) for index in range(workers)]
    for batch, features in zip(counted, parts):
        with whole_batch.over(batch):
            model(features, training=False)
    keys, rows, distinct = (sum(getattr(c, of) for c in counted) / workers for of in ("key_bytes", "row_bytes", "distinct"))
    return Traffic(2 * (workers - 1) / workers * FLOAT * dense, keys, rows, rows, distinct)


class _Counted(SharedBatch):
    """Counts the distinct keys of a worker's part. Its lookups return rows of worker 0, of which only the shape is right."""

    def __init__(self, shard: Shard):
        self.shard, self.rows = shard, None
        self.key_bytes = self.row_bytes = self.distinct = 0

    def total(self, x):
        return x

    def gathered(self, x):
        return tf.stack([x] * self.shard.count)

    def reduced(self, gradients, variables):
        return gradients

    def lookup(self, read, tables, columns, layout, counted):
        workers = self.shard.count
        for t, table in enumerate(tables):
            ids = [flat_ids(column).numpy() for column, of in zip(columns, layout.table_of) if of == t]
            distinct = np.unique(np.concatenate(ids))
            distinct = distinct[distinct >= 0]
            grows = isinstance(table, EmbeddingVariable)
            owners = hash_keys(distinct) % np.uint64(workers) if grows else distinct % workers
            others = int(np.count_nonzero(owners != self.shard.index))
            self.distinct += len(distinct)
            self.key_bytes += others * (16 if grows else 4)
            self.row_bytes += others * FLOAT * (table.dim if grows else table.shape[1])
        near = [c.with_flat_values(c.flat_values // workers) if isinstance(c, tf.RaggedTensor) else c // workers for c in columns]
        return read(tables, near, layout)

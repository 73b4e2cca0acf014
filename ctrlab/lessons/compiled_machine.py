"""The lessons' small model on the compiled engine: its tables are embedding variables instead of the definition in NumPy. Initial
values and steps are the same, except that rows are float32 instead of float64. One op reads all tables, and one op steps them.
"""

from __future__ import annotations

import functools

import numpy as np
import tensorflow as tf

from ctrlab.embedding.options import Options
from ctrlab.embedding.table.ops import grouped
from ctrlab.embedding.variable import EmbeddingVariable
from ctrlab.lessons.factorization import FactorizationMachine
from ctrlab.ops.lookup import Layout
from ctrlab.training import TouchedRows


class CompiledMachine(FactorizationMachine):
    """A `FactorizationMachine` whose `tables` are {column: EmbeddingVariable}."""

    def rows(self) -> int:
        return sum(table.rows() for table in self.tables.values())

    def bytes(self) -> int:
        """The bytes of memory of all tables: rows, slots, their metadata, the index and the counts."""
        return sum(table.stats().bytes for table in self.tables.values())

    def _table(self, column: str, options: Options) -> EmbeddingVariable:
        return EmbeddingVariable(column, 1 + self.dim, options)

    def _rows(self, ids, training: bool) -> np.ndarray:
        return self._compiled[0]([tf.constant(ids[column]) for column in self.tables], training).numpy()

    def _update(self, ids, gradients: np.ndarray) -> None:
        self._compiled[1]([tf.constant(ids[column]) for column in self.tables], tf.constant(gradients, tf.float32))

    @functools.cached_property
    def _compiled(self):
        """Two functions: (keys, training) -> rows [F, B, 1 + D]; and (keys, gradients [F, B, 1 + D]), which steps all tables."""
        tables = list(self.tables.values())
        proxies = [table.proxy for table in tables]
        each = tuple(range(len(tables)))
        layout = Layout(each, ("rows",) * len(tables), each)
        optimizer = TouchedRows("adagrad", self.learning_rate)
        optimizer.build(proxies)

        @tf.function(reduce_retracing=True)
        def read(keys, training):
            return tf.stack(grouped(tables, keys, layout, training))

        @tf.function(reduce_retracing=True)
        def step(keys, gradients):
            shape = tf.constant([0, 1 + self.dim], tf.int64)
            slices = [tf.IndexedSlices(rows, of, shape) for rows, of in zip(tf.unstack(gradients), keys)]
            optimizer.apply(slices, proxies)

        return read, step

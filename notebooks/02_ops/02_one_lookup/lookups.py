"""The lookups of a model without the rest of it, for the lesson on one lookup: its columns, and their least work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ctrlab.ops import lookup
from ctrlab.ops.lookup import Ids, Layout
from ctrlab.profiling.work import Work


@dataclass(frozen=True)
class Lookups:
    """The lookups of a model with pooled columns in its batches.

    Attributes:
        tables: float32 variables [V, D].
        layout: which column reads which table; all columns stand side by side in one output.
        inputs: per batch, the columns: int64 [B] or ragged [B, (L)].
        examples, ids, distinct: of the first batch: B, the ids of all columns, and the table rows that they touch.
        dim: D.
    """

    tables: tuple[tf.Variable, ...]
    layout: Layout
    inputs: tuple[tuple[Ids, ...], ...]
    examples: int
    ids: int
    distinct: int
    dim: int

    @property
    def work(self) -> Work:
        """The least work of the lookup and its merged gradient. Outputs, their gradients and merged rows cross memory once."""
        streamed = 2 * self.examples * len(self.layout.table_of) + self.distinct
        return lookup.OP.work(self.ids, self.distinct, self.dim) + Work(bytes=4.0 * streamed * self.dim)


def of(model, batches: Sequence[tuple]) -> Lookups:
    """The lookups of `model`, a DLRM, in batches of (features, labels). Columns whose ids may be unknown are left out."""
    schema = model.schema
    fields = [field for field in model.fields if schema[field].encoding == "hash"]
    names = list(dict.fromkeys(schema[field].table for field in fields))
    table_of = tuple(names.index(schema[field].table) for field in fields)
    inputs = tuple(tuple(model.encoder.ids(features)[field] for field in fields) for features, _ in batches)
    first = [np.asarray(ids.values if isinstance(ids, tf.RaggedTensor) else ids) for ids in inputs[0]]
    return Lookups(
        tables=(tables := tuple(model.embedding.tables[name].value for name in names)),
        layout=Layout(table_of, ("mean",) * len(fields), (0,) * len(fields)),
        inputs=inputs,
        examples=int(inputs[0][0].shape[0]),
        ids=sum(map(len, first)),
        distinct=len({(t, int(i)) for t, ids in zip(table_of, first) for i in ids}),
        dim=tables[0].shape[1],
    )

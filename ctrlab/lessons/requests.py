"""Requests of real rows, as clients write them, and their conversion to tensors by a server in Python."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from ctrlab.serving.inputs import Features, Input


def json_rows(features: Features, rows: int) -> bytes:
    """TensorFlow Serving's REST body with the first `rows` examples of a batch: {"instances": [{column: value or list}, ...]}."""
    columns = {name: feature[:rows] for name, feature in features.items()}
    lists = {name: (f.to_list() if isinstance(f, tf.RaggedTensor) else f.numpy().tolist()) for name, f in columns.items()}
    found = [dict(zip(lists, values)) for values in zip(*lists.values())]
    return json.dumps({"instances": found}, default=bytes.decode).encode()


def tensors(instances: Sequence[Mapping], columns: Sequence[Input]) -> dict[str, tf.Tensor]:
    """The tensors of a SavedModel's signature from the rows of a JSON body."""
    found = {}
    for each in columns:
        values = [row[each.column] for row in instances]
        if each.ragged:
            found[f"{each.column}/values"] = tf.constant([value for row in values for value in row], each.dtype)
            found[f"{each.column}/row_splits"] = tf.constant(np.cumsum([0, *map(len, values)]), tf.int64)
        else:
            found[each.column] = tf.constant(values, each.dtype)
    return found

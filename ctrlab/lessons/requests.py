"""Requests of real rows, as clients write them."""

from __future__ import annotations

import json

import tensorflow as tf

from ctrlab.serving.inputs import Features


def json_rows(features: Features, rows: int) -> bytes:
    """TensorFlow Serving's REST body with the first `rows` examples of a batch: {"instances": [{column: value or list}, ...]}."""
    columns = {name: feature[:rows] for name, feature in features.items()}
    lists = {name: (f.to_list() if isinstance(f, tf.RaggedTensor) else f.numpy().tolist()) for name, f in columns.items()}
    found = [dict(zip(lists, values)) for values in zip(*lists.values())]
    return json.dumps({"instances": found}, default=bytes.decode).encode()

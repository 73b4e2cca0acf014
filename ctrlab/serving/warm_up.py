"""Warm-up requests in TensorFlow Serving's format: assets.extra/tf_serving_warmup_requests, a TFRecord file of PredictionLogs.

A server answers them before it takes traffic, because the first calls of a graph are slow. The messages are a few nested fields,
written here by their numbers, so that an export needs neither TensorFlow Serving's package nor its protobuf:

    PredictionLog.predict_log = 6    PredictLog.request = 1
    PredictRequest.model_spec = 1, .inputs = 2 (a map: key = 1, value = 2)    ModelSpec.name = 1, .signature_name = 3

Source: tensorflow_serving/apis/{prediction_log,predict,model}.proto.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import tensorflow as tf

from ctrlab.data import explained
from ctrlab.serving.graph import SIGNATURE
from ctrlab.serving.inputs import Features
from ctrlab.serving.record_file import record_file
from ctrlab.serving.wire import field

PLACE = Path("assets.extra", "tf_serving_warmup_requests")
REQUESTS, EXAMPLES = 8, 32
MOST = 1_000
"""The most requests; TensorFlow Serving takes no more."""


def rows_of(batches: tf.data.Dataset) -> list[Features]:
    """Rows for a few requests, from batches of `EXAMPLES`."""
    with explained():
        return [features for features, _ in batches.take(REQUESTS)]


def write_requests(folder: Path, model: str, requests: Sequence[Mapping[str, tf.Tensor]]) -> None:
    """Writes the warm-up file of a version folder.

    Args:
        requests: {input: tensor} for each request.
    Raises:
        OSError: the disk refused.
    """
    path = folder / PLACE
    path.parent.mkdir()
    with record_file(path) as file:
        for request in requests:
            file.write(field(6, field(1, predict_request(model, request))))


def predict_request(model: str, tensors: Mapping[str, tf.Tensor]) -> bytes:
    """A PredictRequest in wire format."""
    parts = [field(1, field(1, model.encode()) + field(3, SIGNATURE.encode()))]
    for name, tensor in tensors.items():
        value = tf.make_tensor_proto(tensor).SerializeToString()
        parts.append(field(2, field(1, name.encode()) + field(2, value)))
    return b"".join(parts)

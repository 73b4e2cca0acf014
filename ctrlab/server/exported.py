"""A model with fresh weights that is exported to its own folder, and requests to it: what lessons and studies serve."""

from __future__ import annotations

import atexit
import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

import ctrlab
from ctrlab import data, serving
from ctrlab.model_names import DATA_SETS
from ctrlab.models.base import CTRModel
from ctrlab.profiles import Profile
from ctrlab.server.models import Models
from ctrlab.serving.inputs import Features, inputs_of, to_tensors
from ctrlab.serving.processor import Processor


def json_request(features: Features, model: CTRModel) -> bytes:
    """These rows as a request by columns, for TensorFlow Serving's REST interface."""
    tensors = to_tensors(features, inputs_of(model, "text"), model)
    columns = {name: tensor.numpy() for name, tensor in tensors.items()}
    return json.dumps({"inputs": {n: (c.astype(str) if c.dtype == object else c).tolist() for n, c in columns.items()}}).encode()


class Exported:
    """A model's folder, which is deleted by `close` or at the end of this process, even if a notebook's cell has failed.

    Args:
        name: the model's name; its own data set is used. optimizations: as in `ctrlab.build`.
        most_rows: the most rows of a request.
    """

    def __init__(self, name: str, profile: Profile, optimizations: str, most_rows: int = 64):
        self._held = contextlib.ExitStack()
        atexit.register(self._held.close)
        folder = Path(self._held.enter_context(tempfile.TemporaryDirectory(prefix="ctrlab-exported-")))
        self._features, _ = next(iter(data.prepare(DATA_SETS[name], profile=profile).read_train(most_rows, drop_remainder=True)))
        self._model = ctrlab.build(name, optimizations=optimizations)
        self.folder = folder / name
        self.export()

    def export(self) -> int:
        """Exports the model as one more version, and returns its number."""
        return int(serving.export_model(self._model, self.folder, rows=[self.rows(1)]).name)

    def rows(self, rows: int) -> Features:
        """Features of this number of examples, at most `most_rows`."""
        return {column: values[:rows] for column, values in self._features.items()}

    def tensors(self, rows: int) -> dict[str, tf.Tensor]:
        """A request for the scores of this number of rows, as the model's inputs."""
        return to_tensors(self.rows(rows), inputs_of(self._model, "text"), self._model)

    def request(self, rows: int) -> bytes:
        """The same request as JSON, by columns."""
        return json_request(self.rows(rows), self._model)

    def processor(self, **configuration) -> Processor:
        """The compiled server of the model, until `close`."""
        return self._held.enter_context(Processor(self.folder, **{"poll_seconds": 0} | configuration))

    @contextlib.contextmanager
    def server(self, **options) -> Iterator[Models]:
        """What answers requests in `ctrlab serve`, with one thread, while the block runs."""
        models = Models(self.folder, threads=1, poll_seconds=0, **options)
        try:
            yield models
        finally:
            models.close()

    def close(self) -> None:
        """Ends its processors and deletes its folder."""
        self._held.close()
        atexit.unregister(self._held.close)

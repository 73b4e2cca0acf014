"""A ranking model that is served with whole rows and with its user once, also with a learner's two answers in its graph.

All requests are of one user, with a history of a chosen length.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf

import ctrlab
from ctrlab import data, serving
from ctrlab.load.requests import COUNTS, bodies
from ctrlab.model_names import DATA_SETS
from ctrlab.models import sharing
from ctrlab.ops.events import Events
from ctrlab.profiles import Profile
from ctrlab.serving.processor import Processor

SIZE = 6
"""The factor of the initial embeddings, which makes them about as large as after training. Otherwise all answers would be
nearly equal.
"""
TINY_BUCKETS = 2_000
ROWS = 500  # of the data set, from which users and candidates are drawn
BODIES = 4  # requests that take turns in a measurement
TYPES = {"string": "BYTES", "int32": "INT32", "int64": "INT64", "float32": "FP32"}
FirstLayer = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
Attend = Callable[[tf.Tensor, tf.Tensor, list], tuple[tf.Tensor, tf.Tensor]]


class Ranking:
    """A model served in several ways, each in one thread of this process, from equal weights and on equal requests.

    Args:
        name: a model with histories, "din" or "dien".
    Attributes:
        served: {name of the way: its server}.
    """

    def __init__(self, name: str, profile: Profile):
        self._held = contextlib.ExitStack()
        atexit.register(self._held.close)
        self._folder = Path(self._held.enter_context(tempfile.TemporaryDirectory(prefix="ctrlab-")))
        files = data.prepare(DATA_SETS[name], profile=profile)
        self.name, self.schema = name, files.schema.with_buckets(TINY_BUCKETS) if profile.name == "tiny" else files.schema
        self._warm_up = next(iter(files.read_test(8, lists="ragged")))[0]
        self._table = pq.read_table(files.test[0]).slice(0, ROWS)
        self.served: dict[str, Processor] = {}

    def serve(
        self,
        way: str,
        optimizations: str,
        *,
        user_once: bool = False,
        first_layer: FirstLayer | None = None,
        attend: Attend | None = None,
    ) -> None:
        """Exports the model in this way, and serves it until `close`.

        Args:
            user_once: whether requests have the user once.
            first_layer, attend: a learner's answers, which the graph has in place of the package's.
        """
        model = ctrlab.build(self.name, self.schema, optimizations=optimizations)
        for table in model.embedding.tables.values():
            table.assign(SIZE * table)
        if attend:
            model.attend.shared = of_one_user(attend)
        folder = self._folder / str(len(self.served)) / self.name
        with _multiplied_by(first_layer):
            serving.export_model(model, folder, rows=[self._warm_up], share_users=user_once)
        self.served[way] = self._held.enter_context(Processor(folder, poll_seconds=0, intra_op_threads=1))

    def requests(self, way: str, candidates: int, events: int) -> list[bytes]:
        """Requests with this number of candidates of a user with this number of events, in JSON by columns: equal for every
        way, in its form.
        """
        inputs = {name: TYPES[kind] for name, kind in self.served[way].info()["inputs"].items()}
        table = _with_histories(self._table, self.schema, events)
        made = bodies(table, self.schema, inputs, candidates=(candidates, candidates), count=BODIES)
        return [body.data for body in made]

    def answers(self, way: str, candidates: int, events: int) -> np.ndarray:
        """The probabilities of all candidates of these requests, one request after the other."""
        found = [self.served[way].process(each, "json").data for each in self.requests(way, candidates, events)]
        return np.concatenate([np.ravel(json.loads(answer)["outputs"]) for answer in found])

    def furthest(self, way: str, base: str, candidates: int, events: int) -> float:
        """The largest difference between the answers of two ways."""
        return float(abs(self.answers(way, candidates, events) - self.answers(base, candidates, events)).max())

    def calls(self, candidates: int, events: int) -> dict[str, Callable[[int], object]]:
        """{way: a function that answers the request with a given number}, for measurements."""

        def call(way: str) -> Callable[[int], object]:
            requests, server = self.requests(way, candidates, events), self.served[way]
            return lambda number: server.process(requests[number % BODIES], "json")

        return {way: call(way) for way in self.served}

    def bytes_by_role(self, request: bytes) -> dict[str, int]:
        """The size of a request's columns in JSON: {"user": bytes, "candidate": bytes}."""
        found = dict.fromkeys(("user", "candidate"), 0)
        for name, values in json.loads(request)["inputs"].items():
            role = "candidate" if name == COUNTS else self.schema.role(name.partition("/")[0])
            found["candidate" if role == "candidate" else "user"] += len(json.dumps({name: values}))
        return found

    def close(self) -> None:
        self._held.close()
        atexit.unregister(self._held.close)


def _with_histories(table: pa.Table, schema, events: int) -> pa.Table:
    """The rows with this number of events each, drawn from the rows' own items; an item keeps its category."""
    picked = pa.array(np.random.default_rng(events).integers(0, table.num_rows, table.num_rows * events))
    splits = pa.array(np.arange(table.num_rows + 1) * events, pa.int32())
    for history in schema.histories:
        values = table[history.of].combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        lists = pa.ListArray.from_arrays(splits, values.take(picked))
        table = table.set_column(table.schema.get_field_index(history.name), history.name, lists)
    return table


def of_one_user(attend: Attend) -> Callable:
    """A learner's attention as a way of `ctrlab.ops.shared_attention`, for requests of one user."""

    def way(query: tf.Tensor, keys: Events, candidates: tf.Tensor, layers) -> tuple[tf.Tensor, tf.Tensor]:
        tf.debugging.assert_equal(tf.size(candidates), 1, "This graph answers requests of one user.")
        weights, attended = attend(query, keys.flat, layers)
        return tf.reshape(weights, [-1]), attended

    return way


@contextlib.contextmanager
def _multiplied_by(first_layer: FirstLayer | None) -> Iterator[None]:
    """A context in which the learner's function multiplies users' and candidates' columns."""
    ours = sharing.product

    def product(x: sharing.Matrix, kernel: tf.Tensor):
        if not isinstance(x, sharing.Parts):
            return ours(x, kernel)
        users, candidates = sharing.groups(x)
        rows = tf.split(kernel, [sharing.bare(piece).shape[1] for piece in x.pieces])
        of_users = [isinstance(piece, sharing.PerUser) for piece in x.pieces]
        sorted_rows = [part for kind in (True, False) for part, of_user in zip(rows, of_users) if of_user == kind]
        return first_layer(users.values, candidates, users.users.row_of, tf.concat(sorted_rows, 0))

    sharing.product = product if first_layer else ours
    try:
        yield
    finally:
        sharing.product = ours

"""Tables that are split by key over workers, for the lesson on shards: one model on real batches, alone and with real workers."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf
from ctrlab.lessons.topics.shards.exchange_by_hand import Ask, ByHand, Exchanged, Merge

from ctrlab import data, models, whole_batch
from ctrlab.distributed.local_workers import LocalWorkers, Member, part, rows_of
from ctrlab.distributed.program import Program
from ctrlab.embedding import EmbeddingVariable, embedding_variables
from ctrlab.embedding.initial_values import initial_values
from ctrlab.embedding.options import Initializer
from ctrlab.embedding.table.ops import grouped
from ctrlab.embedding.table_state import TableState
from ctrlab.lessons.check import CheckFailed, require_close
from ctrlab.ops.lookup import Ids, Layout
from ctrlab.training import get_state, make_optimizer, set_state, train_step
from ctrlab.whole_batch import Shard

MODEL = "dlrm"
HYPER = {"optimizer": "adagrad", "learning_rate": 0.01}
"""The training's hyperparameters. Adam divides even the smallest gradient by its size, so after two steps only its rounding
would be visible.
"""
ROWS, DIM = 20_000, 16
"""The size of the table whose lookups are timed."""
LOOKUPS = 10
"""The number of lookups per timed call."""

Owner = Callable[[np.ndarray, int], np.ndarray]
"""(keys int64 [n], workers) -> the worker that has each key's row, int64 [n]."""


def built() -> tuple[object, object]:
    """DLRM with growing tables, and its optimizer."""
    sizes = models.MODELS[MODEL].presets["contest"]
    sizes = dataclasses.replace(sizes, hyper=dataclasses.replace(sizes.hyper, **HYPER))
    model = models.build(MODEL, optimizations="all", embedding="variable", size=sizes)
    return model, make_optimizer(model)


def batches(model, steps: int) -> Iterator[tuple]:
    """Batches of (features, labels), the same in each process."""
    files = data.prepare_for(model.input_schema, ("parquet", "encoded"))
    read = files.read_train(model.hyper.batch_size, epochs=-1, drop_remainder=True, lists="ragged")
    return iter(read.take(steps))


class Sample:
    """A model's batches, the ids in them, and the model trained on them in this process."""

    def __init__(self, steps: int):
        self._model, self._optimizer = built()
        self._batches, self._first = list(batches(self._model, steps)), get_state(self._model, self._optimizer)
        self.steps, self.batch_size, self.dim = steps, self._model.hyper.batch_size, DIM
        growing, features = {table.name for table in embedding_variables(self._model)}, self._batches[0][0]
        columns = [column for column in self._model.input_schema.id_columns if column.table in growing]
        self._columns = [(column.table, *_ids_and_ends(features[column.name])) for column in columns]

    def ids(self, workers: int) -> list[dict[str, np.ndarray]]:
        """For each worker {table: the ids in its part of the first batch, int64 [n]}."""
        return [self._of(rows_of(self.batch_size, index, [1] * workers)) for index in range(workers)]

    def _of(self, rows: slice) -> dict[str, np.ndarray]:
        found: dict[str, list[np.ndarray]] = {}
        for table, ids, ends in self._columns:
            found.setdefault(table, []).append(ids[ends[rows.start] : ends[rows.stop]])
        return {table: np.concatenate(parts) for table, parts in found.items()}

    def alone(self) -> list[float]:
        """The losses of a training in this process, which has all rows, from the initial weights."""
        set_state(self._first, self._model, self._optimizer)
        step = train_step(self._model, self._optimizer)
        return [float(step(*batch)) for batch in self._batches]

    def rows(self) -> int:
        """The number of rows of all growing tables."""
        return growth(self._model)


def growth(model) -> int:
    return sum(variable.rows() for variable in embedding_variables(model))


def _ids_and_ends(column: Ids) -> tuple[np.ndarray, np.ndarray]:
    """A column's ids, int64 [n], and where each example's end, int64 [B + 1]."""
    if isinstance(column, tf.RaggedTensor):
        return column.flat_values.numpy(), column.row_splits.numpy()
    return column.numpy(), np.arange(len(column) + 1)


def trained(member: Member, steps: int, ask: Ask, merge: Merge, owner: Owner) -> tuple[list[float], int]:
    """In a worker: trains on its part of the batches. Returns the losses, and its number of rows afterwards."""
    workers, exchanged = member.workers, Exchanged()
    with workers.building():
        model, optimizer = built()
    step = train_step(model, optimizer, by_hand(workers, ask, merge, owner, exchanged))
    losses = []
    for number, batch in enumerate(batches(model, steps)):
        losses.append(float(step(*part(batch, workers.shard.index, [1] * workers.shard.count))))
        member.tell(number, loss=losses[-1], megabytes=exchanged.bytes(DIM) / 1e6, rows=growth(model))
    return losses, growth(model)


def by_hand(workers, ask: Ask, merge: Merge, owner: Owner, exchanged: Exchanged) -> Program:
    """A step's program, in which the learner's functions exchange rows."""
    return Program(workers, lambda inner: ByHand(inner, lambda ids, count: ask(ids, count, owner), merge, exchanged))


def first_row(keys: np.ndarray) -> np.ndarray:
    """Untrained rows, float32 [n, DIM], which are functions of their keys."""
    return initial_values(Initializer("normal"), keys, DIM)


def require_sums(found: Sequence[tuple], ids: Sequence[np.ndarray], gradients: Sequence[np.ndarray]) -> None:
    """Checks the gradients that the owners received: (keys, sums) by owner, from the workers' `ids`, int64 [n], and their
    `gradients`, float32 [n, D].

    Raises:
        CheckFailed: the keys of all owners, or their sums, differ from those that TensorFlow computes in one process.
    """
    keys, sums = map(np.concatenate, zip(*found))
    right, place = np.unique(np.concatenate(ids), return_inverse=True)
    right_sums = tf.math.unsorted_segment_sum(np.concatenate(gradients), place, len(right)).numpy()
    order = np.argsort(keys, kind="stable")
    try:
        require_close(keys[order], right, case="the keys of all owners, sorted", next_step="run check 1 and check 2 again")
        require_close(sums[order], right_sums, case="the sums of all owners, sorted by key", next_step="run check 2 again")
    except CheckFailed as refused:
        refused.tell()
        raise


def popular(rng: np.random.Generator, count: int, rows: int = ROWS) -> np.ndarray:
    """Ids below `rows`, int64 [count]: the k-th comes about 1 / k times as often as the first."""
    return (float(rows) ** rng.random(count)).astype(np.int64)


def with_tables(member: Member, ask: Ask, merge: Merge, owner: Owner) -> None:
    """In a worker: prepares the tables for `looked_up`."""
    member.kept = {
        "one process": _lookup(Shard(), None),
        "two workers, ours": _lookup(member.workers.shard, member.workers.program()),
        "two workers, yours": _lookup(member.workers.shard, by_hand(member.workers, ask, merge, owner, Exchanged()).program()),
    }


def _lookup(shard: Shard, program: Callable | None) -> Callable[[tf.Tensor], tf.Tensor]:
    """A function ids -> their rows, for a table of `ROWS` rows or its shard."""
    table = EmbeddingVariable("timed", DIM)
    keys, ones = np.arange(ROWS), np.ones(ROWS, np.int64)
    table.load_state(TableState(keys, np.ones((ROWS, DIM), np.float32), {}, ones, ones), shard=(shard.index, shard.count))
    read, layout = functools.partial(grouped, training=False), Layout((0,), ("rows",), (0,))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)], autograph=False)
    def lookup(ids):
        if program is None:
            return read([table], [ids], layout)[0]
        with program(None):
            return whole_batch.batch().lookup(read, [table], [ids], layout, True)[0]

    return lookup


def looked_up(member: Member, way: str, ids: int, call: int) -> None:
    """In a worker: looks up its part of this number of ids, `LOOKUPS` times."""
    shard = Shard() if way == "one process" else member.workers.shard
    for lookup in range(LOOKUPS):
        all_ids = popular(np.random.default_rng((call, lookup)), ids)
        rows = member.kept[way](tf.constant(all_ids[shard.index :: shard.count]))
    rows.numpy()


def ways(workers: LocalWorkers, ids: int) -> dict[str, Callable[[int], None]]:
    """The timed functions, call number -> None: one process looks up all ids, or each of two workers half of them."""
    alone = {"one process": [0]}
    names = ("one process", "two workers, ours", "two workers, yours")
    return {way: functools.partial(_timed, workers, way, ids, alone.get(way)) for way in names}


def _timed(workers: LocalWorkers, way: str, ids: int, on: Sequence[int] | None, call: int) -> None:
    workers.run(looked_up, way, ids, call, on=on)

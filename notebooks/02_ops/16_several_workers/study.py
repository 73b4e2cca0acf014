"""One model trained by this process and by real workers, for the lesson on several workers: the same steps, timed, killed."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from ctrlab.lessons.topics.several_workers.ring_by_hand import AllReduce, Joined, Ringed, between, moments_by
from ctrlab.lessons.topics.several_workers.ring_in_threads import in_threads

from ctrlab import data, models
from ctrlab.distributed import Place, Workers
from ctrlab.distributed.local_workers import AGAIN, LocalWorkers, Member, Told, part
from ctrlab.distributed.manifest import read_manifest
from ctrlab.distributed.program import Program
from ctrlab.embedding import EmbeddingVariable, embedding_variables
from ctrlab.errors import CtrlabError
from ctrlab.ops.lookup import flat_ids
from ctrlab.optimizations import of_level
from ctrlab.profiling.timing import Comparison
from ctrlab.training import Run, Saving, Spec, get_state, make_optimizer, set_state, train_step

MODEL, DATA = "dlrm", "census_income"
RUNGS, FILES = of_level("all", "model"), ("parquet", "encoded")
HYPER = {"optimizer": "adagrad", "learning_rate": 1e-3, "batch_size": 256}
"""The training's hyperparameters. With Adam, or with large steps, rounding differences would grow until nothing else could be
seen.
"""

YOURS = "two workers, yours"


def sizes() -> models.Sizes:
    contest = models.MODELS[MODEL].presets["contest"]
    return dataclasses.replace(contest, hyper=dataclasses.replace(contest.hyper, **HYPER))


def built() -> tuple[object, object]:
    """DLRM with growing tables, and its optimizer."""
    model = models.build(MODEL, DATA, RUNGS, embedding="variable", size=sizes())
    return model, make_optimizer(model)


def batches(model, rows: int, steps: int) -> Iterator[tuple]:
    """Batches of (features, labels) with this number of rows, the same in each process."""
    files = data.prepare_for(model.input_schema, FILES)
    return iter(files.read_train(rows, epochs=-1, drop_remainder=True, lists="ragged").take(steps))


def traced(step: Callable, model) -> Callable:
    """The step, traced once for batches of any size."""
    (batch,) = batches(model, 1, 1)
    any_rows = tf.nest.map_structure(lambda column: tf.TensorSpec([None, *column.shape[1:]], column.dtype), batch)
    step.get_concrete_function(*any_rows)
    return step


class Alone:
    """The model in this process.

    Attributes:
        steps: number of training steps. dense: number of weights that each worker has whole.
    """

    def __init__(self, steps: int):
        self.model, self._optimizer = built()
        self.steps = steps
        self._first = get_state(self.model, self._optimizer)
        self._step = traced(train_step(self.model, self._optimizer), self.model)
        growing = {variable.proxy.path for variable in embedding_variables(self.model)}
        self.dense = sum(w.shape.num_elements() for w in self.model.trainable_weights if w.path not in growing)

    def activations(self) -> np.ndarray:
        """The input of the model's first batch normalization for a batch: float32 [B, H]."""
        ((features, _),) = batches(self.model, self.model.hyper.batch_size, 1)
        weights = {weight.path: weight for weight in self.model.trainable_weights}
        _, numbers = self.model.inputs(features, True)
        return tf.nn.relu(numbers @ weights["bottom/dense_0/kernel"] + weights["bottom/dense_0/bias"]).numpy()

    def losses(self) -> list[float]:
        """The losses of a training on whole batches, from the initial weights."""
        set_state(self._first, self.model, self._optimizer)
        return [float(self._step(*batch)) for batch in batches(self.model, self.model.hyper.batch_size, self.steps)]

    def timed(self, rows: int) -> Callable[[int], float]:
        """A function of the call's number that takes a step on a batch with this number of rows."""
        (batch,) = batches(self.model, rows, 1)
        return lambda call: float(self._step(*batch))


def trained(
    member: Member, steps: int, shares: Sequence[int], all_reduce: AllReduce, joined: Joined
) -> tuple[list[float], float]:
    """In a worker: trains on its share of each batch, with the learner's functions; the losses, and the bytes that it has sent
    per step. The model is kept for `timed`."""
    model, step, line = _by_hand(member, all_reduce, joined)
    losses = []
    for number, batch in enumerate(batches(model, model.hyper.batch_size, steps)):
        losses.append(float(step(*part(batch, member.workers.shard.index, shares))))
        member.tell(number, loss=losses[-1])
    return losses, line.sent / steps


def _by_hand(member: Member, all_reduce: AllReduce, joined: Joined) -> tuple:
    """The model, its step with the learner's functions, and the line through which that sends."""
    workers = member.workers
    with workers.building():
        model, optimizer = built()
    line = member.hold(between(workers))
    step = train_step(model, optimizer, Program(workers, lambda inner: Ringed(inner, all_reduce, line)))
    with moments_by(joined):
        traced(step, model)
    member.kept[YOURS] = model, step
    return model, step, line


def ready(member: Member, all_reduce: AllReduce, joined: Joined) -> None:
    """In a worker: builds the models for `timed`; also the learner's model, if the workers were restarted since it was
    trained.
    """
    workers = member.workers
    if YOURS not in member.kept:
        _by_hand(member, all_reduce, joined)
    with workers.building():
        model, optimizer = built()
    member.kept["two workers, ours"] = model, traced(train_step(model, optimizer, workers), model)
    if workers.first:
        model, optimizer = built()
        member.kept["one process, one core"] = model, traced(train_step(model, optimizer), model)


def timed(member: Member, way: str, rows: int, call: int) -> float:
    """In a worker: a step on its half of a batch with this number of rows; on the whole batch if it is alone."""
    model, step = member.kept[way]
    if (way, rows) not in member.kept:
        (batch,) = batches(model, rows, 1)
        shard = member.workers.shard
        member.kept[way, rows] = batch if way == "one process, one core" else part(batch, shard.index, [1] * shard.count)
    return float(step(*member.kept[way, rows]))


def ways(workers: LocalWorkers, alone: Alone, rows: int) -> dict[str, Callable[[int], float]]:
    """The timed functions, call number -> loss: a step on a batch with this number of rows."""
    names = {"one process, one core": [0], "two workers, ours": None, YOURS: None}
    found = {way: functools.partial(_timed, workers, way, rows, on) for way, on in names.items()}
    return found | {"one process, two cores": alone.timed(rows)}


def _timed(workers: LocalWorkers, way: str, rows: int, on: Sequence[int] | None, call: int) -> float:
    return workers.run(timed, way, rows, call, on=on)[0]


def faster(race: Comparison, way: str, rival: str) -> str:
    """Whether one way is faster than another one of the same race: "yes", "no" or "inconclusive"."""
    return dataclasses.replace(race, baseline=rival).verdict(way)


def spec(folder: Path, every: int, resume: bool = False) -> Spec:
    """The spec of a training on all rows once, which saves at intervals of this number of steps."""
    saving = Saving(folder, every=every, resume=resume)
    return Spec(MODEL, (*RUNGS, *FILES), DATA, embedding="variable", size=sizes(), saving=saving)


def saved(member: Member, folder: Path, every: int) -> None:
    """In a worker: `ctrlab train --workers`, with checkpoints."""
    with Run(spec(folder, every), member.workers) as run:
        run.train(on_step=lambda number, loss: member.tell(number, loss=loss))


def killed(workers: LocalWorkers, folder: Path, every: int, at: int, told: Told) -> int:
    """Kills worker 1 in step `at` of a training. Returns the step of the last save of both workers.

    Raises:
        CtrlabError: a worker has failed before, or there is no save of both yet.
    """
    was_killed = False

    def watch(worker: int, step: int, numbers: dict) -> None:
        nonlocal was_killed
        told(worker, step, numbers)
        if worker == 1 and step == at:
            was_killed = True
            workers.kill(1)

    try:
        workers.run(saved, folder, every, told=watch)
    except CtrlabError:
        if not was_killed:
            raise
        if not (saves := read_manifest(folder)):
            raise CtrlabError(f"Worker 1 was killed before a save of both was written: {AGAIN}.") from None
        return saves[0].position
    raise CtrlabError(f"The training ended before step {at}, at which a worker is killed.")


@dataclasses.dataclass(frozen=True)
class Resumed:
    """The result of a resumed training.

    Attributes:
        rows: number of rows of the data set.
        lost, repeated: rows that a table's keys miss, and that they have too often, {table: rows}.
        history: (workers, steps), in order.
    """

    rows: int
    lost: dict[str, int]
    repeated: dict[str, int]
    history: tuple[tuple[int, int], ...]


def resumed(folder: Path, every: int, told: Told) -> Resumed:
    """Resumes in this process, as the only worker, and trains to the end of the rows."""
    with Run(spec(folder, every, resume=True), Workers(Place(("127.0.0.1:0",), 0))) as run:
        begun = run.position
        run.train(on_step=lambda number, loss: told(0, begun + number, {"loss": loss}))
        of_files = counts_of_files(run.model, run.files)
        off = {table.name: differences(table, of_files[table.name]) for table in embedding_variables(run.model)}
    lost, repeated = ({name: each[place] for name, each in off.items()} for place in (0, 1))
    return Resumed(run.files.rows, lost, repeated, read_manifest(folder)[0].history)


def counts_of_files(model, files) -> dict[str, dict[int, int]]:
    """The number of occurrences of each key of a growing table in the training's files, {table: {key: times}}."""
    growing = {table.name for table in embedding_variables(model)}
    found: dict[str, Counter] = {name: Counter() for name in growing}
    for features, _ in files.read_train(4_096, epochs=1, lists="ragged"):
        for column in model.input_schema.id_columns:
            if column.table in growing:
                keys, times = np.unique(flat_ids(features[column.name]).numpy(), return_counts=True)
                found[column.table].update(dict(zip(keys.tolist(), times.tolist())))
    return found


def differences(table: EmbeddingVariable, of_files: Mapping[int, int]) -> tuple[int, int]:
    """The number of lookups that a table has not counted, and the number that it counted too often. Equal sums could hide
    both.
    """
    state = table.state()
    counted = dict(zip(state.keys.tolist(), state.frequencies.tolist()))
    more = [counted.get(key, 0) - of_files.get(key, 0) for key in counted.keys() | of_files.keys()]
    return -sum(each for each in more if each < 0), sum(each for each in more if each > 0)


def tried(all_reduce: AllReduce, workers: int) -> tuple[bool, set[float]]:
    """Whether an all-reduce in threads gives each worker the sum; and the bytes that each sends, as a multiple of its
    gradient.
    """
    # Sums of small whole numbers are exact in any order.
    gradients = np.random.default_rng(workers).integers(0, 99, (workers, 840)).astype(np.float32)
    found, sent = in_threads(lambda me, ring: all_reduce(gradients[me], me, workers, ring), workers)
    return all(np.array_equal(each, gradients.sum(0)) for each in found), {out / gradients[0].nbytes for out in sent}

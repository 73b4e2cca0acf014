"""One variant of a race, in a process of its own: `python -m ctrlab.race.worker`, spoken to in `processes`' lines.

    {"do": "open", ...job}             -> {what is known of model and data}
    {"do": "train", "steps": n}        -> {"seconds": s, "losses": [...]}
    {"do": "retrain", "seed", "steps"} -> {}             from new weights, on newly shuffled rows, untimed
    {"do": "evaluate"}                 -> {"auc": {...}, "log_loss": {...}, "rows": n}

Nobody saves checkpoints here, so the rung "async_checkpoint" changes nothing in a race. A checkpoint does not shrink with the
number of steps: in a race of some dozen steps it would be half of the score, and an asynchronous one would look far better than
it is. In the contest itself one file at the end was certain (the evaluation restored it), and for that one both have to wait.
What the rung gains is timed by `ctrlab bench checkpoints`.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import tensorflow as tf

from ctrlab import data, profiles, training
from ctrlab import optimizations as ladder
from ctrlab.data.csv import split
from ctrlab.features import Sequence
from ctrlab.models import build
from ctrlab.profiling.machine import machine
from ctrlab.profiling.processes import serve
from ctrlab.training.stage import stage
from ctrlab.training.threads import apply_threads, choose_setting

MOST_EVALUATED_ROWS = 131_072
WARM_UP_STEPS = 3


@dataclass(frozen=True)
class Job:
    """What a worker is to train: a model with its rungs on a data set ("generated" or "real"), at a profile's size."""

    model: str
    rungs: list[str]
    data_set: str
    source: str
    profile: str
    seed: int


class Session:
    """A model in training: warmed up, then trained in as many blocks as are asked for."""

    def __init__(self, job: Job):
        self.job = job
        self.rungs = {level: ladder.of_level(job.rungs, level) for level in ladder.LEVELS}
        self.choice = choose_setting(job.model, self.rungs["run"])
        apply_threads(self.choice.setting)
        self.model, self.optimizer = self._new_model(job.seed)
        place = {"profile": profiles.current(job.profile), "source": job.source}
        self.files = data.prepare_for(self.model.input_schema, self.rungs["input"], **place)
        self.batch_size = training.batch_size(self.model, self.rungs["input"])
        self.rows_owed = 0
        self.step = training.train_step(self.model, self.optimizer)
        self.predict = training.predict_step(self.model)
        self.batches = self._batches(job.seed)
        self.positions = self._warm_up()

    def _new_model(self, seed: int):
        # With no schema a model takes its own data set, at the contest's table sizes.
        schema = None if self.job.source == "generated" else self.job.data_set
        model = build(self.job.model, schema, self.rungs["model"], seed)
        return model, training.make_optimizer(model)

    def _batches(self, seed: int):
        options = {"epochs": -1, "drop_remainder": True, "prefetch": self.choice.setting.prefetch}
        batches = self._read(self.files.read_train, shuffle=training.SHUFFLE_ROWS, seed=seed, **options)
        return iter(stage(batches, self.model, self.choice.setting.stage))

    def _read(self, read, **options):
        # A line of CSV has its lists as text, which the model splits; in columns they are split already.
        return read(self.batch_size, lists="text" if self.files.format == "csv" else "ragged", **options)

    def _warm_up(self) -> float:
        """Traces and runs the step, then puts the first weights back. Returns the number of ids in the batch's lists."""
        before = training.get_state(self.model, self.optimizer)
        with data.explained():
            batch = next(self.batches)
            training.train(self.model, self.optimizer, itertools.repeat(batch, WARM_UP_STEPS), step=self.step)
        training.set_state(before, self.model, self.optimizer)
        return positions(self.model.schema, batch[0])

    def open(self) -> dict:
        work = self.model.work(self.batch_size, self.positions)
        return {
            "train_rows": self.files.rows,
            "batch_size": self.batch_size,
            "work": work.to_json(),
            "ceiling": self.files.ceiling,
            "device": machine().line,
            "setting": self.choice.source,
        }

    def train(self, steps: int) -> dict:
        """Trains on as many rows as are in `steps` of the model's own batches."""
        self.rows_owed += steps * self.model.hyper.batch_size
        steps, self.rows_owed = divmod(self.rows_owed, self.batch_size)
        start = time.perf_counter()
        with data.explained():
            history = training.train(self.model, self.optimizer, self.batches, steps, step=self.step)
        return {"seconds": time.perf_counter() - start, "losses": history.losses}

    def retrain(self, seed: int, steps: int) -> dict:
        training.set_state(training.get_state(*self._new_model(seed)), self.model, self.optimizer)
        self.batches, self.rows_owed = self._batches(seed), 0
        self.train(steps)
        return {}

    def evaluate(self) -> dict:
        batches = self._read(self.files.read_test).take(-(-MOST_EVALUATED_ROWS // self.batch_size))
        with data.explained():
            found = training.evaluate(self.model, batches, self.predict)
        return {"auc": found.auc, "log_loss": found.log_loss, "rows": found.rows}


def positions(schema, features) -> float:
    """Ids in all lists of a batch, negatives left out: what the models' floors are counted on."""
    count = 0.0
    for column in (*schema.histories, *schema.multi_hots):
        values = features[column.name]
        lists = values if isinstance(values, tf.RaggedTensor) else split(values, column.separator)  # [B, (L)]
        ids = lists.row_lengths()
        count += float(tf.reduce_sum(tf.minimum(ids, column.max_length) if isinstance(column, Sequence) else ids))
    return count


if __name__ == "__main__":
    serve(lambda **job: Session(Job(**job)))

"""Runs one variant of a race in its own process: `python -m ctrlab.race.worker`. Line protocol of `processes`:

    {"do": "open", ...job}             -> {facts about model and data}
    {"do": "write_first_step", "path"} -> {}             the baseline's, for the other variants
    {"do": "hold_first_step", "path"}  -> {"differs": [[tensor, distance], ...]}
    {"do": "train", "steps": n}        -> {"seconds": s, "losses": [...]}
    {"do": "retrain", "seed", "steps"} -> {}             from new weights, on newly shuffled rows, untimed
    {"do": "evaluate"}                 -> {"auc": {...}, "log_loss", "gauc", "calibration", "rows": n}

No worker saves checkpoints, so the rung "async_checkpoint" has no effect in a race. The cost of a checkpoint does not depend on
the number of steps. In a race of some dozen steps it would be half of the score, and asynchronous saving would look far too good.
In the contest itself only the final checkpoint was required (the evaluation restored it), and both kinds wait for that one.
`ctrlab bench checkpoints` measures the gain of the rung.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ctrlab.data.csv import split
from ctrlab.profiling.machine import machine
from ctrlab.profiling.processes import serve
from ctrlab.profiling.timing import timed
from ctrlab.schema import Sequence
from ctrlab.training import equality
from ctrlab.training.run import Run
from ctrlab.training.spec import Spec
from ctrlab.training.state import get_state, set_state

MOST_EVALUATED_ROWS = 131_072
WARM_UP_STEPS = 3
UNTIMED = 6
"""Up to this many steps at the start of a block are not timed. While other workers ran, this one was stopped and lost its cached
data; and the reader has a head start of finished batches. Neither is typical for training."""
AS_BASELINE = 0.01
"""Limit for the distance (by norm) between a tensor's change in the first step and the baseline's. Rounding alone stays far
below, except if a ReLU's input is so close to 0 that rounding switches its gradient. The test suite chooses its rows and requires
1e-5."""


@dataclass(frozen=True)
class Job:
    """What a worker trains: a model with its rungs on a data set ("generated" or "real"), at a profile's size."""

    model: str
    rungs: list[str]
    data_set: str
    source: str
    profile: str
    seed: int

    @property
    def spec(self) -> Spec:
        own = self.source == "generated"  # the model's own, with the contest's table sizes
        data = {"data_set": None if own else self.data_set, "source": self.source, "profile": self.profile}
        return Spec(self.model, self.rungs, seed=self.seed, epochs=-1, **data)


class Session:
    """A model in training: warmed up, then trained in blocks."""

    def __init__(self, job: Job):
        self.run = Run(job.spec)
        self.rows_owed = 0
        self.positions, self.distinct = self._warm_up()

    def _warm_up(self) -> tuple[float, float]:
        """Traces and runs the step, then restores the initial weights. Returns for a batch the number of ids in its lists, and
        the number of distinct table rows of all its ids."""
        run, batches = self.run, iter(self.run.read())  # other batches than those for training
        before = get_state(run.model, run.optimizer)
        run.train(WARM_UP_STEPS, batches=batches)
        set_state(before, run.model, run.optimizer)
        features, _ = next(batches)
        return positions(run.model.schema, features), distinct_rows(run.model, features)

    def open(self) -> dict:
        work = self.run.model.work(self.run.batch_size, self.positions, self.distinct)
        return {
            "train_rows": self.run.files.rows,
            "made_of": self.run.files.made_of,
            "batch_size": self.run.batch_size,
            "work": work.to_json(),
            "ceiling": self.run.files.ceiling,
            "device": machine().line,
            "setting": self.run.choice.source,
        }

    def write_first_step(self, path: str) -> dict:
        """Writes the changes of the first step to a file .npz, for the other variants."""
        np.savez(path, **self._first_step())
        return {}

    def hold_first_step(self, path: str) -> dict:
        """Compares the first step with the baseline's file: [[tensor, distance by norm], ...] of those that differ, worst
        first."""
        did = self._first_step()
        with np.load(path, allow_pickle=False) as file:
            expected = dict(file)
        odd = equality.differences(expected, did, dict.fromkeys(expected, AS_BASELINE))
        return {"differs": [[d.tensor, d.relative] for d in odd]}

    def _first_step(self) -> dict[str, np.ndarray]:
        """The loss, and the changes of all variables and slots; the state is restored."""
        run = self.run
        before = get_state(run.model, run.optimizer)
        losses = run.train(1, batches=iter(run.read())).losses
        after = get_state(run.model, run.optimizer)
        set_state(before, run.model, run.optimizer)
        return {"loss": np.array(losses)} | equality.moves(before, after)

    def train(self, steps: int) -> dict:
        """Trains on as many rows as `steps` of the model's own batches contain.

        The first `UNTIMED` steps are not timed. The seconds are scaled as if all rows had taken as long as the timed ones.
        """
        owed = self.rows_owed + steps * self.run.model.hyper.batch_size
        own_steps, self.rows_owed = divmod(owed, self.run.batch_size)
        head = min(UNTIMED, own_steps // 2)
        losses = self.run.train(head).losses
        seconds, history = timed(lambda: self.run.train(own_steps - head))
        rows, timed_rows = steps * self.run.model.hyper.batch_size, (own_steps - head) * self.run.batch_size
        return {"seconds": seconds * rows / timed_rows if timed_rows else 0.0, "losses": losses + history.losses}

    def retrain(self, seed: int, steps: int) -> dict:
        self.run.restart(seed)
        self.rows_owed = 0
        self.train(steps)
        return {}

    def evaluate(self) -> dict:
        found = self.run.evaluate(MOST_EVALUATED_ROWS)
        return dataclasses.asdict(found)


def positions(schema, features) -> float:
    """The number of ids in all lists of a batch, without negatives. The models' floors are computed from it."""
    count = 0.0
    for column in (*schema.histories, *schema.multi_hots):
        values = features[column.name]
        lists = values if isinstance(values, tf.RaggedTensor) else split(values, column.separator)  # [B, (L)]
        ids = lists.row_lengths()
        count += float(tf.reduce_sum(tf.minimum(ids, column.max_length) if isinstance(column, Sequence) else ids))
    return count


def distinct_rows(model, features) -> int:
    """The number of distinct table rows that the ids of a batch name. The floor assumes that each row is read once."""
    columns = [*model.encoder.id_columns, *model.encoder.negatives]
    of_table: dict[str, list] = {}
    for column in columns:
        ids = model.encoder.ids(features, [column])[column.name]
        of_table.setdefault(column.table, []).append(ids.flat_values if isinstance(ids, tf.RaggedTensor) else ids)
    known = [np.unique(np.concatenate(ids)) for ids in of_table.values()]
    return sum(int(np.sum(ids >= 0)) for ids in known)


if __name__ == "__main__":
    serve(lambda **job: Session(Job(**job)))

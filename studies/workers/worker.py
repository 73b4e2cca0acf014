"""One worker of `ctrlab bench workers`: `python -m studies.workers.worker`. Line protocol of `processes`:

    {"do": "open", ...job}                 -> {}
    {"do": "prepare", "batch": B}          -> {"rows": of this worker, "reduces", "exchanges": collectives of a step}
    {"do": "train", "batch": B, "steps"}   -> {"seconds"}
    {"do": "least", "batch": B, "workers"} -> the least `Traffic`

Its batches are read before, so that a step's time is that of the step alone. All workers of a group are asked together.
"""

from __future__ import annotations

import itertools

import tensorflow as tf
from ctrlab.lessons.topics.more_workers.one_process import Job
from ctrlab.lessons.topics.more_workers.traffic import least

from ctrlab.data.dealing import borders
from ctrlab.distributed.cluster import join
from ctrlab.models import build
from ctrlab.profiling.processes import serve
from ctrlab.profiling.timing import timed
from ctrlab.training.run import Run
from ctrlab.training.several import SeveralSteps

BATCHES = 8
"""Number of batches that are used in rotation, so steps touch the rows of this number of batches."""
WARM_UP_STEPS = 4


class Session:
    def __init__(self, **job):
        self.job, self.workers = Job(**job), join()
        self.runs: dict[int, Run] = {}
        self.batches: dict[int, tf.data.Iterator] = {}

    def open(self) -> dict:
        return {}

    def prepare(self, batch: int) -> dict:
        run = self.runs[batch] = Run(self.job.spec(batch), self.workers)
        batches = run.read().take(BATCHES).cache()
        self.batches[batch] = iter(batches.repeat())
        self.train(batch, WARM_UP_STEPS + BATCHES)
        features, labels = next(iter(batches))
        step = run.step.step if isinstance(run.step, SeveralSteps) else run.step
        kinds = [op.type for op in step.get_concrete_function(features, labels).graph.get_operations()]
        of = {"reduces": "CollectiveReduceV2", "exchanges": "CollectiveAllToAllV2"}
        return {"rows": int(tf.shape(labels)[0])} | {name: kinds.count(kind) for name, kind in of.items()}

    def train(self, batch: int, steps: int) -> dict:
        seconds, _ = timed(lambda: self.runs[batch].train(steps, batches=self.batches[batch]))
        return {"seconds": seconds}

    def least(self, batch: int, workers: int) -> dict:
        run = Run(self.job.spec(batch))
        features, _ = next(iter(run.read()))
        shares = itertools.pairwise(borders(batch, batch, workers))
        parts = [{name: column[begin:end] for name, column in features.items()} for begin, end in shares]
        sizes = {"embedding": run.spec.embedding, "size": run.spec.size}
        return least(lambda: build(run.spec.model, None, run.rungs["model"], run.spec.seed, **sizes), parts).to_json()


if __name__ == "__main__":
    serve(Session)

"""One setting of threads, in a process of its own: `python -m ctrlab.training.tune_worker`, spoken to in `processes`' lines.

{"do": "open", ...job}                                       -> {}
{"do": "train", "steps": n, "prefetch": p, "stage": s}       -> {"seconds": s}
"""

from __future__ import annotations

import time

from ctrlab import data, training
from ctrlab import optimizations as ladder
from ctrlab.models import build
from ctrlab.profiling.processes import serve
from ctrlab.training.stage import stage
from ctrlab.training.threads import Setting, apply_threads

WARM_UP_STEPS = 3


class Session:
    """A model in training; each depth of the buffers has a reader of its own, which goes on where it stopped."""

    def __init__(self, model: str, rungs: list[str], profile: str, intra: int, inter: int):
        apply_threads(Setting(intra, inter))
        self.model = build(model, optimizations=ladder.of_level(rungs, "model"))
        self.rungs = ladder.of_level(rungs, "input")
        self.files = data.prepare_for(self.model.input_schema, self.rungs, profile=profile)
        self.step = training.train_step(self.model, training.make_optimizer(self.model))
        self.readers = {}

    def open(self) -> dict:
        return {}

    def train(self, steps: int, prefetch: int, stage: int) -> dict:
        with data.explained():
            batches = self.readers.get((prefetch, stage)) or self._reader(prefetch, stage)
            start = time.perf_counter()
            training.train(self.model, None, batches, steps, step=self.step)
        return {"seconds": time.perf_counter() - start}

    def _reader(self, prefetch: int, depth: int):
        size = training.batch_size(self.model, self.rungs)
        options = {"shuffle": training.SHUFFLE_ROWS, "seed": 1, "epochs": -1, "drop_remainder": True, "prefetch": prefetch}
        lists = "text" if self.files.format == "csv" else "ragged"
        batches = iter(stage(self.files.read_train(size, lists=lists, **options), self.model, depth))
        training.train(self.model, None, batches, WARM_UP_STEPS, step=self.step)
        self.readers[prefetch, depth] = batches
        return batches


if __name__ == "__main__":
    serve(Session)

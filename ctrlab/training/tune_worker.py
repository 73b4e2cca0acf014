"""Trains with one thread setting in its own process: `python -m ctrlab.training.tune_worker`. Line protocol of `processes`:

{"do": "open", ...job}                                       -> {}
{"do": "train", "steps": n, "prefetch": p, "stage": s}       -> {"seconds": s}
"""

from __future__ import annotations

import dataclasses

from ctrlab.profiling.processes import serve
from ctrlab.profiling.timing import timed
from ctrlab.training.run import Run
from ctrlab.training.spec import Spec
from ctrlab.training.threads import Setting

WARM_UP_STEPS = 3


class Session:
    """A model in training. Each buffer depth has its own reader, which continues where it stopped."""

    def __init__(self, model: str, rungs: list[str], profile: str, intra: int, inter: int):
        self.run = Run(Spec(model, rungs, profile=profile, epochs=-1, setting=Setting(intra, inter)))
        self.readers = {}

    def open(self) -> dict:
        return {}

    def train(self, steps: int, prefetch: int, stage: int) -> dict:
        batches = self.readers.get((prefetch, stage)) or self._reader(prefetch, stage)
        return {"seconds": timed(lambda: self.run.train(steps, batches=batches))[0]}

    def _reader(self, prefetch: int, stage: int):
        setting = dataclasses.replace(self.run.choice.setting, prefetch=prefetch, stage=stage)
        batches = self.readers[prefetch, stage] = iter(self.run.read(setting))
        self.run.train(WARM_UP_STEPS, batches=batches)
        return batches


if __name__ == "__main__":
    serve(Session)

"""A worker without TensorFlow: it speaks the protocol, and misbehaves as FAKE_WORKER (JSON) says.

{"auc": [model, optimized, value]}   what that variant's evaluation gives
{"die": [model, optimized, do]}      kills itself when asked to `do`
{"crash": [model, optimized, do]}    raises
{"refuse": [model, optimized, do]}   raises a CtrlabError
{"hang": [model, optimized, do]}     never answers
{"differs": [[tensor, distance]]}    what the optimized variants' first steps are said to get wrong
"""

import json
import os
import signal
import time

from ctrlab.errors import CtrlabError
from ctrlab.profiling.processes import serve

FAKE = json.loads(os.environ.get("FAKE_WORKER", "{}"))
BASELINE_AUC = {2021: 0.700, 2022: 0.702, 2023: 0.701, 2024: 0.699, 2025: 0.703}


class Session:
    def __init__(self, model, rungs, seed, **job):
        self.model, self.optimized, self.seed, self.steps = model, bool(rungs), seed, 0
        print("what libraries print must not disturb the protocol", flush=True)

    def open(self):
        self.misbehave("open")
        work = {"flops": 1e9, "bytes": 0.0, "random_rows": 0.0, "row_bytes": 64.0}
        return {
            "train_rows": 4096,
            "made_of": "fake rows",
            "batch_size": 512,
            "work": work,
            "ceiling": {"clicked": 0.75},
            "device": "fake",
        }

    def write_first_step(self, path):
        self.misbehave("write_first_step")
        return {}

    def hold_first_step(self, path):
        self.misbehave("hold_first_step")
        return {"differs": FAKE["differs"] if self.optimized and "differs" in FAKE else []}

    def train(self, steps):
        self.misbehave("train")
        losses = [1 / (self.steps + i + 1) for i in range(steps)]
        self.steps += steps
        return {"seconds": (0.5 if self.optimized else 1.0) * steps, "losses": losses}

    def retrain(self, seed, steps):
        self.misbehave("retrain")
        self.seed = seed
        return {}

    def evaluate(self):
        self.misbehave("evaluate")
        auc = BASELINE_AUC[self.seed]
        model, optimized, value = FAKE.get("auc", (None, None, None))
        if (model, optimized) == (self.model, self.optimized):
            auc = value
        others = {name: {"clicked": value} for name, value in (("log_loss", 0.5), ("gauc", 0.6), ("calibration", 1.01))}
        return {"auc": {"clicked": auc}, **others, "rows": 819}

    def misbehave(self, do):
        what = next((w for w, case in FAKE.items() if case == [self.model, self.optimized, do]), None)
        if what == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif what == "crash":
            raise RuntimeError("something is rotten")
        elif what == "refuse":
            raise CtrlabError("The data must be there; it is not. Make it.")
        elif what == "hang":
            time.sleep(600)


serve(Session)

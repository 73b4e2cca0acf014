"""Records as the benches of serving write them, of numbers that nobody measured."""

from __future__ import annotations

import dataclasses

import numpy as np
from ctrlab.lessons.topics.more_workers.measured import Found as Steps
from ctrlab.lessons.topics.more_workers.measured import Measured
from ctrlab.lessons.topics.more_workers.traffic import Traffic
from ctrlab.lessons.topics.share_cores.allocation import POLICIES
from ctrlab.lessons.topics.share_cores.curve import ServiceCurve
from ctrlab.lessons.topics.share_cores.experiment import Experiment

from ctrlab.server.bench.beside_stock import SIDES, STOCK, SideOnModel
from studies.fleet.check import Check, PoolTimes
from studies.groups.bench import LAYOUTS, PROCESSORS, SESSIONS, GroupsFound
from studies.groups.splitting import FITTED, HELD_OUT, Pools
from studies.quantized import bench as quantized

MACHINE = "a machine, 2 cores"


class Made:
    """Random records; the same seed gives the same ones."""

    def __init__(self, seed: int, rounds: int = 9):
        self.rng, self.rounds = np.random.default_rng(seed), rounds

    def numbers(self, size: float, count: int | None = None) -> list[float]:
        return (size * self.rng.lognormal(0, 0.2, count or self.rounds)).tolist()

    def serving(self, *models: str) -> dict:
        rows = []
        for model in models:
            for count in (1, 200):
                for side in SIDES:
                    bare = not side.python and not side.options and side.format == "columns"
                    alone = self.numbers(2e-3) if bare else []
                    most = [self.numbers(size, 3) if count > 1 else [] for size in (120, 20)]
                    if side.name == STOCK and count > 1:
                        most[1] = [0.0] * 3
                    rows.append(SideOnModel(model, side.name, count, self.numbers(5e-3), alone, 0.0585, *most, 1e-7))
        return {"machine": MACHINE, "rows": [dataclasses.asdict(row) for row in rows]}

    def groups(self, model: str, graph: str) -> dict:
        def of(names, size: float) -> dict:
            return {name: self.numbers(size) for name in names}

        threads = sorted((*FITTED, *HELD_OUT))
        pools = Pools(threads, [self.numbers(2e-3 + 1e-5 * n) for n in threads])
        rates = of((*SESSIONS, *PROCESSORS), 800)
        p99 = (of(LAYOUTS, 5e-3), of(LAYOUTS, 90), of(LAYOUTS, 2e-3), of(LAYOUTS, 8e-3))
        found = GroupsFound(model, "deepfm", "dien", 200, (1, 2), rates, *p99, 36, pools)
        return found.to_json() | {"machine": MACHINE, "optimizations": graph}

    def fleet(self, cores: int | None = 128) -> dict:
        curves = {model: ServiceCurve(*self.numbers(1e-3, 4), 0.05, (0.9, 1.1)) for model in ("deepfm", "dien")}
        settings = tuple(
            PoolTimes(pools, busy, model, *self.numbers(4e-3, 4), int(self.rng.integers(100, 9_999)))
            for pools in ("2 together", "1 each")
            for busy in (0.3, 0.7)
            for model in curves
        )
        carried = [dict(zip(POLICIES, self.rng.uniform(0.3, 0.9, 3).tolist())) for _ in range(2)]
        carried[1]["split"] = 0.0
        experiments = [each.to_json() for each in (Experiment(), Experiment(variants=16, share=0.05))]
        varied = [facts | {"carried": found} for facts, found in zip(experiments, carried)] if cores else []
        return Check(curves, settings).to_json() | {"machine": MACHINE, "cores": cores, "experiments": varied}

    def quantized(self, model: str, tasks: tuple[str, ...] = ("label",), falls: bool = True) -> dict:
        def rung(size: int) -> quantized.Rung:
            auc, ratio = ({task: self.numbers(near, 16) for task in tasks} for near in (0.7, 1.0))
            return quantized.Rung(auc, ratio, 0.00285, size, size + 40_000, self.numbers(2e-3))

        rungs = {name: rung(size) for name, size in zip(quantized.RUNGS, (10_139_648, 5_978_112, 4_417_536))}
        area = dict.fromkeys(tasks, 0.6843)
        curve = {task: [0.6843, 0.6843, 0.6842, 0.6841, 0.6835, 0.681 if falls else 0.6834, 0.6834] for task in tasks}
        one = quantized.QuantizedModel(model, "criteo", "real", 27_646, rungs, area, list(quantized.BITS), curve)
        return {"machine": MACHINE, "profile": "lesson", "models": [one.to_json()]}

    def workers(self, counts: tuple[int, ...], rates: tuple[float, ...]) -> dict:
        measured, alone = [], []
        for count in counts:
            least = Traffic(*self.numbers(5e5, 4), 900.0)
            facts = {"reduces": 3, "exchanges": 15, "least": least, "threads": 1}
            for rate in (None, *rates):
                sizes = {"bytes": 2_654_000.5, "packets": 284.25}
                measured.append(Measured("deepfm", 512, count, rate, tuple(self.numbers(0.07)), **sizes, **facts))
            own = facts | {"reduces": 0, "exchanges": 0, "bytes": 0.0, "packets": 0.0}
            alone.append(Measured("deepfm", 512 // count, 1, None, tuple(self.numbers(0.01)), **own))
        return Steps(tuple(measured), tuple(alone)).to_json() | {"machine": MACHINE}

    def all(self) -> dict[str, list[dict]]:
        """Some records of each bench."""
        return {
            "serving": [self.serving("deepfm", "din")],
            "groups": [self.groups("deepfm", "all"), self.groups("din", "stock")],
            "fleet": [self.fleet()],
            "quantized": [self.quantized("deepfm"), self.quantized("mmoe", ("clk", "buy"), falls=False)],
            "workers_fitted": [self.workers((2, 4), (100.0, 1e3))],
            "workers_held_out": [self.workers((3,), (300.0,)), self.workers((2,), ())],
        }

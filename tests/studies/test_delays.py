"""Whole steps of two workers over links with a delay, beside what the simulator says that a delay costs."""

import contextlib
from dataclasses import asdict
from functools import partial

import numpy as np
import pytest
from ctrlab.lessons.topics.more_workers.one_process import Job
from relay import Relay

from ctrlab.distributed.launch import free_ports
from ctrlab.distributed.place import Place, threads_of
from ctrlab.distributed.simulator.cluster import Cluster, Host, Link
from ctrlab.distributed.simulator.model import Model
from ctrlab.distributed.simulator.step import step
from ctrlab.profiling.processes import Worker
from ctrlab.profiling.timing import paired
from studies.workers.bench import COMMAND, Group

BATCH, STEPS, ROUNDS = 512, 10, 20
JOB = Job("dlrm", ["none"], "hashed", "tiny", 1)
DELAYS = {"none": 0.0, "0.1 ms": 1e-4, "1 ms": 1e-3, "5 ms": 5e-3}


def group(seconds: float, held: contextlib.ExitStack) -> Group:
    """Two workers, each of which reaches the other through a relay."""
    own = [f"127.0.0.1:{port}" for port in free_ports(2)]
    relayed = [held.enter_context(Relay(address, seconds)).address for address in own]
    places = [Place((own[0], relayed[1]), 0), Place((relayed[0], own[1]), 1)]
    started = Group(
        [
            held.enter_context(Worker(f"worker {place.index}", COMMAND, place.config() | threads_of(1), stops=False))
            for place in places
        ]
    )
    started.ask("open", **asdict(JOB))
    return started


def block(of: Group) -> float:
    return max(answer["seconds"] for answer in of.ask("train", batch=BATCH, steps=STEPS)) / STEPS


@pytest.mark.long
def test_a_delay_costs_a_step_what_the_simulator_says():
    """It holds for a delay that is long compared with the computing; a short one costs less."""
    with contextlib.ExitStack() as held:
        groups = {name: group(seconds, held) for name, seconds in DELAYS.items()}
        facts, *_ = [each.ask("prepare", batch=BATCH)[0] for each in groups.values()]
        seconds = paired({name: partial(block, each) for name, each in groups.items()}, range(ROUNDS))
    model = Model(0.0, 0.0, 0.0, dim=1.0, reductions=facts["reduces"], exchanges=facts["exchanges"])
    longer, simulated = {}, {}
    for name, delay in DELAYS.items():
        link = Link(delay, 0.0)
        simulated[name] = float(step(model, Cluster(2, link, link, Host(2)), 2, BATCH).seconds)
        longer[name] = np.percentile(np.subtract(seconds[name], seconds["none"]), [25, 50, 75])
        low, median, high = 1e3 * longer[name]
        print(f"{name}: {median:+.1f} ms [{low:+.1f}, {high:+.1f}], simulated {1e3 * simulated[name]:+.1f}")
    assert longer["5 ms"][1] == pytest.approx(simulated["5 ms"], rel=0.2)
    assert 0.4 * simulated["1 ms"] < longer["1 ms"][1] < 1.2 * simulated["1 ms"]
    assert longer["0.1 ms"][1] < longer["1 ms"][1]

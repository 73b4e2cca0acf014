"""Simulated clusters of machines like the learner's, for the lesson on when more workers lose.

The time of a step of one worker is measured here. The rest of the model was fitted to recorded steps and checked: sums and
exchanges, padding, and the exchanges' own work, scaled by this machine's speed relative to the recorded one. The host of the
check is not used: its `message` and `byte` describe two cores that handle the packets of all workers and links. The simulated
machines have one worker each, and a link with TCP's latency.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from ctrlab.lessons.topics.more_workers import aws, fitting, one_process, published  # noqa: F401 (the lesson asks for its cases)
from ctrlab.lessons.topics.more_workers.checks import reference_ring
from ctrlab.lessons.topics.more_workers.fitting import Checked, Errors, line_through
from ctrlab.lessons.topics.more_workers.measured import Found
from ctrlab.lessons.topics.more_workers.one_process import Job
from ctrlab.lessons.topics.more_workers.surface import over_bandwidth

from ctrlab.distributed.plan import Task, plan
from ctrlab.distributed.simulator.cluster import Cluster, Host, Link
from ctrlab.distributed.simulator.model import FLOAT, Distinct, Model
from ctrlab.distributed.simulator.step import links, step
from ctrlab.lessons import places
from ctrlab.profiles import Profile
from ctrlab.profiling.records import found_in, read

Ring = Callable[[float, object, float, float], object]
"""(bytes, workers, seconds per message, seconds per byte) -> seconds of an all-reduce."""
Search = Callable[[Callable[[int], float], int, float], int]
"""(seconds of a step by workers, most workers, slack) -> the fewest workers within it."""
WITHIN = 0.2
"""The allowed relative difference between simulated and real steps."""
BUMP = 1e-3
"""The largest bump of a curve, as a fraction of a step's seconds. Counts of distinct ids are joined by lines, and a curve may
have bumps at their ends; these are lower.
"""
SAME = 1e-6
"""The allowed relative difference between two rings, far above rounding."""
NAME = "dlrm"
EXAMPLES = {"tiny": (64, 256, 1_024)}
MOST_EXAMPLES = (128, 512, 1_024, 2_048)
LATENCY = 50e-6
"""Seconds of a message between two machines of a data centre, with TCP."""
MOST = 64
"""The most workers that are tried. If this number is the fastest, more may be faster still."""
RATE = 10_000
"""The rate of the links, in megabits per second. On links slower than 3,000 the curve of a step's seconds may have two minima."""
WEIGHTS = (100_000, 1_000_000, 10_000_000, 100_000_000)
"""The numbers of dense weights in the maps."""
TYPICAL = 512
"""The number of examples per step with which two machines are compared."""
HELD_RATE, CORES = 100, 2
"""Settings of the recorded check: the rate of the held-out links, in Mbit/s, and the number of the machine's cores."""


def records(name: str) -> Path:
    return places.notebooks().parent / "data/measurements" / f"{name}.json"


@cache
def recorded(name: str) -> Found:
    """The first record of `data/measurements/<name>.json`, of `ctrlab bench workers`."""
    return found_in(Found, read(records(name))[0])


@cache
def checked() -> Checked:
    """The simulator against recorded steps of real workers over slow links."""
    of = recorded("workers_fitted")
    return fitting.check(of.measured, of.alone, recorded("workers_held_out").measured, HELD_RATE, CORES)


def model_of(fixed: float, per_example: float, distinct: Distinct) -> Model:
    """The checked model on a machine whose steps take these seconds."""
    known = checked().fitted.model
    slower = (fixed + TYPICAL * per_example) / (known.fixed + TYPICAL * known.per_example)
    own = {"sharing": slower * known.sharing, "per_id": slower * known.per_id}
    return replace(known, fixed=fixed, per_example=per_example, distinct=distinct, **own)


class Measured:
    """One worker's step on this machine, and clusters of such workers.

    Attributes:
        seconds: {examples: seconds per step, by repetition}.
        fixed, per_example: seconds of the line through them.
        model: the model for the simulator.
    """

    def __init__(self, profile: Profile):
        job = Job(NAME, ["all"], "hashed", profile.name, 2021)
        examples = EXAMPLES.get(profile.name, MOST_EXAMPLES)
        self.seconds = dict(zip(examples, one_process.step_seconds(job, examples)))
        self.fixed, self.per_example = line_through(self.seconds)
        self.model = model_of(self.fixed, self.per_example, one_process.counted(job))

    def line(self, examples: int) -> dict[str, float]:
        """Measured milliseconds per step, and those of the line."""
        fitted = 1e3 * (self.fixed + self.per_example * examples)
        return {"measured": 1e3 * float(np.median(self.seconds[examples])), "line": fitted}

    def parts(self, workers: int, batch: int, megabits: float) -> dict[str, float]:
        """See `parts`."""
        return parts(self.model, workers, batch, megabits)

    def curve(self, ring: Ring, batch: int, megabits: float, dense: float | None = None) -> Callable[[int], float]:
        """A function W -> seconds of a step whose all-reduces take the time that the learner's function gives.

        Args:
            dense: number of weights that all workers have, in place of the model's; its compute time stays.
        """
        return curve(self.model, ring, batch, megabits, dense)


def parts(model: Model, workers: int, batch: int, megabits: float) -> dict[str, float]:
    """Milliseconds of a simulated step, by part; what the exchange's own ops compute is a part of its own."""
    found = step(model, cluster(megabits), workers, batch)
    compute = step(replace(model, sharing=0.0, per_id=0.0), cluster(megabits), workers, batch).compute
    of = {"compute": compute, "work for the exchange": found.compute - compute, "all-reduce": found.reduce}
    of |= {"exchange": found.exchange, "step": found.seconds}
    return {name: 1e3 * float(seconds) for name, seconds in of.items()}


def curve(model: Model, ring: Ring, batch: int, megabits: float, dense: float | None = None) -> Callable[[int], float]:
    """See `Measured.curve`."""
    model, there = replace(model, dense=dense or model.dense), cluster(megabits)
    return lambda workers: seconds(ring, model, there, workers, batch)


def seconds(ring: Ring, model: Model, there: Cluster, workers: int, batch: int) -> float:
    """Seconds of a simulated step whose all-reduces take the time that the learner's function gives.

    Args:
        there: the cluster. If nodes have several workers, the ring's messages have the mean latency, because they follow one
            another.
    """
    near, far = links(there, workers)
    nodes, steps = math.ceil(workers / there.per_node), 2 * (workers - 1)
    abroad = 2 * (nodes - 1) / max(steps, 1)  # of the ring's messages; the slowest link sets the rate
    latency = (1 - abroad) * float(near.latency) + abroad * float(far.latency)
    per_byte = max(near.per_byte, far.per_byte) if nodes > 1 else near.per_byte
    found, size = step(model, there, workers, batch), FLOAT * model.dense / model.reductions
    sums = model.reductions * ring(size, workers, latency, float(per_byte))
    return float(found.seconds - found.reduce + sums)


def by_link(model: Model, batches: Sequence[int], rates: Sequence[float]) -> np.ndarray:
    """The fastest number of workers, from whole curves: int64 [rates, batches]."""
    return over_bandwidth(model, cluster(RATE), rates, batches, MOST)


def cluster(megabits: float) -> Cluster:
    """A cluster of machines with one worker each."""
    link = Link.of(megabits=megabits, latency=LATENCY)
    return Cluster(1, link, link, Host(1))


def four_over_eight(ring: Ring, batch: int, millions: float, host: str) -> dict[str, float]:
    """{number of GPUs: time of a step relative to that of four}, on one node of V100; "nodes" are two nodes of four.

    Args:
        ring: the learner's function.
        millions: millions of dense weights.
        host: "one loop" feeds all GPUs of a node, "a process each", or "free": launches and copies take no time.
    """
    model, node = aws.aws_model(1e6 * millions), aws.aws_cluster()
    hosts = {
        "one loop": node.host,
        "a process each": replace(node.host, loop=False),
        "free": replace(node.host, launch=0.0, tensor=0.0, copy=0.0),
    }
    node = replace(node, host=hosts[host])
    four = seconds(ring, model, node, 4, batch)
    two_nodes = seconds(ring, model, replace(node, per_node=4), 8, batch)
    found = {name: seconds(ring, model, node, n, batch) / four for n, name in ((1, "1 GPU"), (2, "2 GPUs"), (8, "8 GPUs"))}
    return found | {"8 GPUs, two nodes": two_nodes / four}


def held_out(ring: Ring) -> Errors:
    """The simulator's errors on held-out recorded steps, if their all-reduces take the time that the learner's function gives."""
    found = checked()
    model = found.fitted.model
    priced = (seconds(ring, model, found.fitted.cluster(s.megabits), s.workers, s.batch) for s in found.held_out)
    return Errors.of([replace(s, simulated=max(0.0, took)) for s, took in zip(found.held_out, priced)])


def recorded_worker() -> Model:
    """A worker whose steps are recorded, so that results about it are the same on every machine."""
    parts = found_in(one_process.Parts, read(records("simulator"))[0])
    return model_of(*parts.line, parts.distinct)


def claims(one: Measured, ring: Ring, search: Search) -> dict[str, bool]:
    """The claims that the lesson shows with the learner's two functions. Only the first depends on this machine's speed; it also
    accepts a curve on which one worker beats all others.
    """
    model = recorded_worker()
    agree = []
    for asked in (one.curve(ring, 8_192, RATE), curve(model, ring, 512, RATE)):
        table = [asked(w) for w in range(1, MOST + 1)]
        agree += [as_fast(search(asked, MOST, slack), table, slack) for slack in (1.0, 1.1)]

    def best(batch: int, dense: float | None = None) -> int:
        return search(curve(model, ring, batch, RATE, dense), MOST, 1.0)

    denser, larger = [best(8_192, dense) for dense in (1e5, 1e7, 1e8)], [best(batch) for batch in (512, 2_048, 8_192)]
    return {
        "your search agrees with whole curves within 0.1 % of their seconds, with slack and without": all(agree),
        "a recorded worker: with more dense weights, fewer workers are the fastest": denser[0] > denser[1] > denser[2],
        "a recorded worker: with a larger batch, more workers are the fastest": larger[0] < larger[1] < larger[2],
        "your ring on GPUs, on one node and on two, takes what the package's takes": same_on_gpus(ring),
        "your ring in recorded steps that were held out: within a fifth": held_out(ring).worst < WITHIN,
    }


def as_fast(workers: int, table: Sequence[float], slack: float) -> bool:
    """Whether this is the fewest workers within the limit, except for bumps: no smaller number is clearly within it."""
    limit = slack * min(table)
    enough = 1 <= workers <= len(table) and table[workers - 1] <= (1 + BUMP) * limit
    return enough and min(table[: workers - 1], default=math.inf) > (1 - BUMP) * limit


def same_on_gpus(ring: Ring) -> bool:
    """Whether the learner's ring gives the ratios of the definition if sums are a large part, with 100 million weights."""
    found, right = (four_over_eight(each, 2_048, 100, "free") for each in (ring, reference_ring))
    return all(math.isclose(found[name], right[name], rel_tol=SAME) for name in right)


def said(workers: int) -> str:
    """The fastest number of workers, or that it may be beyond those that were tried."""
    return f"{MOST} or more" if workers >= MOST else f"{workers}"


DAY_EXAMPLES = 30e9
"""Examples per day: so many that speed decides the number of workers if few ids get a row, and memory decides if all do."""


def planned(admitted: float, in_memory: float, network_bytes: int) -> dict[str, float]:
    """Numbers of workers for ten billion ids, more than a terabyte: those that hold the tables, and those that also keep up.

    Args:
        network_bytes: bytes on the network per number of a row or its gradient; in memory it has 4.
    """
    counting = "exact" if admitted == 1 else "bloom"
    numbers = {"admission": admitted, "in_memory": in_memory, "exchange_bytes": network_bytes, "day_examples": DAY_EXAMPLES}
    found = plan(Task(counting=counting, **numbers))
    return {"hold the tables": found.shards, "and keep up": found.workers, "cost of a day's examples": found.cost}

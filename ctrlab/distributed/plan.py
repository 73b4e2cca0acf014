"""A plan for tables that no single machine holds: workers, memory, network, time and money, by arithmetic alone.

    memory   index + rows in memory + counts of ids without a row         -> the fewest workers that hold it
    speed    the simulated step of that many workers and of more          -> the fewest that keep up with each day's examples

Bytes are those of `ctrlab.embedding`'s tables. Rows are dealt to workers by a hash, so shards are taken as equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from ctrlab.distributed.simulator.cluster import Cluster, Host, Link, require_numbers
from ctrlab.distributed.simulator.model import FLOAT, ID, Distinct, Model
from ctrlab.distributed.simulator.step import step
from ctrlab.embedding.analysis import ENTRY_BYTES, FREQUENCY_BYTES
from ctrlab.errors import CtrlabError, choose
from ctrlab.plain import Plain

Counting = Literal["exact", "bloom"]
BLOOM_BYTES = -math.log(0.01) / math.log(2) ** 2
"""Per expected key, of a filter with counters of a byte and 1 % false positives: `BloomFilter`'s defaults."""
MOST_WORKERS = 4_096
DAY = 86_400
"""Seconds."""


@dataclass(frozen=True)
class Task(Plain):
    """What is to be trained, on which workers. Bytes, seconds, and one currency.

    Attributes:
        ids: distinct ids that ever come.
        dim: numbers of a row.
        slots: optimizer slots per number, float32: Adagrad 1, Adam 2.
        admission: the share of the ids that get a row. Of the others counts are kept.
        counting: how: "exact" takes an index entry per id, "bloom" a few counters.
        value_bytes: of a number of a row, in memory and on the network: 4 for float32, 2 for bfloat16.
        replicas: copies of each row.
        dense: weights that every worker has whole.
        lookups: ids per example.
        exponent: of Zipf's law, by which ids come.
        batch: examples of a step, of all workers.
        day_examples: that come each day.
        fixed, per_example: a worker's compute per step, and per example.
        memory: of a worker, for tables.
        in_memory: the share of the rows that stay in memory, the most frequent ones; the others lie on each worker's disk.
        reads: rows per second that a worker reads from its disk.
        megabits, latency: of a worker's link.
        price: of a worker per hour.
    """

    ids: float = 10e9
    dim: int = 16
    slots: int = 1
    admission: float = 1.0
    counting: Counting = "exact"
    value_bytes: int = 4
    replicas: int = 1
    dense: float = 4e6
    lookups: float = 100.0
    exponent: float = 1.05
    batch: int = 65_536
    day_examples: float = 1e9
    fixed: float = 0.01
    per_example: float = 5e-6
    memory: float = 256e9
    in_memory: float = 1.0
    reads: float = 500e3
    megabits: float = 25_000.0
    latency: float = 50e-6
    price: float = 4.0

    def __post_init__(self):
        choose("way of counting", self.counting, get_args(Counting))
        least = {"ids": 1, "dim": 1, "slots": 0, "value_bytes": 1, "replicas": 1, "dense": 0, "exponent": 0, "batch": 1}
        above = ("lookups", "day_examples", "memory", "reads", "megabits")
        require_numbers("A plan", self, **least, fixed=0, per_example=0, latency=0, price=0, **dict.fromkeys(above, 1e-9))
        shares = {"admission": self.admission, "in_memory": self.in_memory}
        for name, share in shares.items():
            if not 0 < share <= 1:
                raise CtrlabError(f"A plan's {name} is a share, above 0 and at most 1; received {share!r}.")

    @property
    def rows(self) -> float:
        """Ids with a row."""
        return self.ids * self.admission

    @property
    def row_bytes(self) -> float:
        """Of one row with its slots and its frequency."""
        return self.dim * (self.value_bytes + FLOAT * self.slots) + FREQUENCY_BYTES


@dataclass(frozen=True)
class Plan(Plain):
    """What a task takes.

    Attributes:
        index, rows_in_memory, counts, on_disk: bytes of all workers together, with all copies.
        shards: the fewest workers whose memory holds it.
        workers: the fewest, of at least `shards`, that keep up with each day's examples; the fastest number if none does.
        keeps_up: whether they do.
        sent: bytes that a worker sends per step.
        compute, network, disk: seconds of a step; what it reads from disk is not hidden behind anything.
        epoch: seconds for a day's examples.
        cost: of that epoch.
    """

    index: float
    rows_in_memory: float
    counts: float
    on_disk: float
    shards: int
    workers: int
    keeps_up: bool
    sent: float
    compute: float
    network: float
    disk: float
    epoch: float
    cost: float

    @property
    def memory(self) -> float:
        return self.index + self.rows_in_memory + self.counts

    @property
    def step(self) -> float:
        return self.compute + self.network + self.disk


def plan(task: Task) -> Plan:
    """What the task takes.

    Raises:
        CtrlabError: more than `MOST_WORKERS` workers would be needed for its memory.
    """
    copies, unadmitted = task.replicas, task.ids - task.rows
    index = copies * ENTRY_BYTES * task.rows
    in_memory = copies * task.rows * task.in_memory * task.row_bytes
    counts = copies * (task.ids * BLOOM_BYTES if task.counting == "bloom" and unadmitted else unadmitted * ENTRY_BYTES)
    on_disk = copies * task.rows * (1 - task.in_memory) * task.row_bytes
    shards = max(1, math.ceil((index + in_memory + counts) / task.memory))
    if shards > MOST_WORKERS:
        raise CtrlabError(
            f"A plan is for at most {MOST_WORKERS:,} workers; this one's tables fill {shards:,} memories of "
            f"{task.memory / 1e9:,.4g} GB. Admit fewer ids, keep fewer rows in memory, or give each worker more of it."
        )
    counted = np.arange(shards, MOST_WORKERS + 1)
    found = step(_model(task), _cluster(task), counted, task.batch)
    disk = _read_seconds(task, counted)
    epochs = (found.seconds + disk) * task.day_examples / task.batch
    enough = np.flatnonzero(epochs <= DAY)
    at = int(enough[0]) if len(enough) else int(np.argmin(epochs))
    workers = int(counted[at])
    return Plan(
        index,
        in_memory,
        counts,
        on_disk,
        shards,
        workers,
        bool(len(enough)),
        _sent(task, workers),
        float(found.compute[at]),
        float(found.reduce[at] + found.exchange[at]),
        float(disk[at]),
        float(epochs[at]),
        float(epochs[at]) / 3_600 * workers * task.price,
    )


FEATURES = {
    "admission": "a fifth of the ids get a row, the others are counted by a Bloom filter",
    "disk": "a tenth of the rows stay in memory",
    "bf16": "rows in bfloat16, slots in float32 (these tables train in float32, and serve bfloat16)",
}
"""What of an embedding engine changes the answer, as `with_feature` does it."""


def with_feature(task: Task, feature: str) -> Task:
    """The same task with one more of `FEATURES`."""
    choose("feature", feature, FEATURES)
    changes = {
        "admission": {"admission": 0.2 * task.admission, "counting": "bloom"},
        "disk": {"in_memory": 0.1 * task.in_memory},
        "bf16": {"value_bytes": 2},
    }
    return replace(task, **changes[feature])


def _model(task: Task) -> Model:
    # The simulator's rows are of float32; fewer bytes per number are as many fewer numbers.
    width = task.dim * task.value_bytes / FLOAT
    distinct = Distinct.zipf(task.ids, task.exponent, task.lookups)
    return Model(task.dense, task.fixed, task.per_example, dim=width, distinct=distinct)


def _cluster(task: Task) -> Cluster:
    link = Link.of(megabits=task.megabits, latency=task.latency)
    return Cluster(1, link, link, Host(1))


def _read_seconds(task: Task, workers: np.ndarray) -> np.ndarray:
    """Of a step, in which a worker reads the distinct ids of its part whose rows are not among the most frequent ones."""
    warm = task.rows * task.in_memory
    if warm > task.rows - 1:
        return np.zeros(len(workers))
    cold = Distinct.zipf(task.ids, task.exponent, task.lookups, first=warm, last=task.rows)
    return cold(task.batch / workers) / task.reads


def _sent(task: Task, workers: int) -> float:
    away = (workers - 1) / workers
    distinct = float(_model(task).distinct(task.batch / workers))
    return away * (2 * FLOAT * task.dense + distinct * (ID + 2 * task.value_bytes * task.dim))

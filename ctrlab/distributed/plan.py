"""A plan for tables that no single machine holds: workers, memory, network, time and money, by arithmetic alone.

    memory   indexes + rows in memory + counts of ids without a row       -> the fewest workers that hold it
    speed    the simulated step of that many workers and of more          -> the fewest that keep up with each day's examples

Bytes per key are those of `ctrlab.embedding`'s tables and stores. Rows are dealt to workers by a hash, so shards are taken as
equal.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from ctrlab.distributed.simulator.cluster import Cluster, Host, Link
from ctrlab.distributed.simulator.model import FLOAT, Distinct, Model
from ctrlab.distributed.simulator.step import sent, step
from ctrlab.embedding.analysis import FREQUENCY_BYTES, INDEX_BYTES
from ctrlab.embedding.store import segments
from ctrlab.errors import CtrlabError, choose
from ctrlab.plain import Plain

Counting = Literal["exact", "bloom"]
STORE_LOAD = 0.4
"""The share of the index, in memory, of rows on disk that entries fill, at worst.

All its shards double at about the same time, when they are 0.8 full.

Source: native/store/store_index.h.
"""
STORE_ENTRY_BYTES = 16
RECORD_BYTES = segments.record(0).itemsize + segments.INDEX_BYTES + 4
"""On disk, of a row beside its numbers and its frequency: the record's header, its entry in the file's index, the last step.

Source: native/store/segment_format.h, native/table/tier.h.
"""
BLOOM_BYTES = -math.log(0.01) / math.log(2) ** 2
"""Per expected key, of a filter with counters of a byte and 1 % false positives: `BloomFilter`'s defaults."""
COUNTED_ID_BYTES = 16
"""On the network: an id and how often it came, 8 bytes each."""
MOST_ROWS = 2**31 - 1
"""Of a table in a worker's memory: native/table/index.h numbers them so. Rows on disk have no such limit."""
MOST_WORKERS = 4_096
DAY = 86_400
"""Seconds."""


LIMITS = {
    "ids": (1, 2**63),
    "tables": (1, 1e6),
    "dim": (1, segments.MOST_ROW_BYTES // FLOAT),
    "slots": (0, 16),
    "admission": (0, 1),
    "value_bytes": (1, 8),
    "exchange_bytes": (1, 8),
    "dense": (0, 1e12),
    "lookups": (1e-3, 1e6),
    "exponent": (0, 10),
    "batch": (1, 1e9),
    "day_examples": (1e-3, 1e15),
    "fixed": (0, DAY, "seconds"),
    "per_example": (0, DAY, "seconds"),
    "memory": (1e3, 1e14, "bytes"),
    "headroom": (0, 0.99),
    "in_memory": (0, 1),
    "reads": (1e-3, 1e10, "rows per second"),
    "writes": (1, 1e13, "bytes per second"),
    "megabits": (1e-3, 1e8),
    "latency": (0, DAY, "seconds"),
    "price": (0, 1e6),
}
"""(least, most, unit if any) of a task's numbers. Beyond them is a slip of the unit, or nothing that one could train."""
WHOLE = frozenset(["tables", "dim", "slots", "value_bytes", "exchange_bytes", "batch"])


@dataclass(frozen=True)
class Task(Plain):
    """What is to be trained, on which workers. Bytes, seconds, and one currency.

    `fixed`, `per_example`, `reads`, `writes` and `price` are placeholders, not measurements: put in those of your model, your
    workers and their disks.

    Attributes:
        ids: distinct ids that ever come, of all tables together.
        tables: that have them, equally many each.
        dim: numbers of a row.
        slots: optimizer slots per number, float32: Adagrad 1, Adam 2.
        admission: the share of the ids that get a row. Of the others counts are kept.
        counting: how: "exact" takes an index entry per id, "bloom" a few counters.
        value_bytes: of a number of a row, in memory and on disk. These tables train in float32: 4.
        exchange_bytes: of a number of a row or its gradient on the network: 4, or 2 with the rung `bf16_exchange`.
        dense: weights that every worker has whole.
        lookups: ids per example.
        exponent: of Zipf's law, by which ids come.
        batch: examples of a step, of all workers.
        day_examples: that come each day.
        fixed, per_example: a worker's compute per step, and per example.
        memory: of a worker.
        headroom: the share of it that is not for tables: the process itself with its batches and buffers, the old arrays of a
            shard of an index while it grows, and filters of a store.
        in_memory: the share of the rows that stay in memory, the most frequent ones; the others lie on each worker's disk.
        reads: rows per second that a worker reads from its disk.
        writes: bytes per second that a worker writes to it.
        megabits, latency: of a worker's link.
        price: of a worker per hour.
    Raises:
        CtrlabError: a number is not within `LIMITS`.
    """

    ids: float = 10e9
    tables: int = 1
    dim: int = 16
    slots: int = 1
    admission: float = 1.0
    counting: Counting = "exact"
    value_bytes: int = 4
    exchange_bytes: int = 4
    dense: float = 4e6
    lookups: float = 100.0
    exponent: float = 1.05
    batch: int = 65_536
    day_examples: float = 1e9
    fixed: float = 0.01
    per_example: float = 5e-6
    memory: float = 256e9
    headroom: float = 0.1
    in_memory: float = 1.0
    reads: float = 500e3
    writes: float = 1e9
    megabits: float = 25_000.0
    latency: float = 50e-6
    price: float = 4.0

    def __post_init__(self):
        choose("way of counting", self.counting, get_args(Counting))
        for name, (least, most, *unit) in LIMITS.items():
            value, whole = getattr(self, name), name in WHOLE
            real = isinstance(value, numbers.Real) and not isinstance(value, bool)
            if not real or not least <= value <= most or (whole and value != int(value)):
                limits = " ".join([*whole * ["a whole number,"], f"{least:,.12g} to {most:,.12g}", *unit])
                raise CtrlabError(f"A plan's {name.replace('_', ' ')} must be {limits}; received {value!r}.")

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
        index: bytes, of all workers together, of the tables' indexes and of the indexes of rows on disk.
        rows_in_memory, counts: bytes, the same.
        on_disk: bytes, the same, without dead records: there are at most half as many as rows before compaction.
        shards: the fewest workers whose memory holds it, with at most `MOST_ROWS` rows of each table.
        workers: the fewest, of at least `shards`, that keep up with each day's examples; the fastest number if none does. No more
            than examples of a step.
        keeps_up: whether they do.
        sent: bytes that a worker sends per step.
        compute, network, disk: seconds of a step, of the worker with most examples. What it reads and writes on disk is not
            hidden behind anything.
        epoch: seconds for a day's examples, in whole steps.
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
        CtrlabError: it takes more than `MOST_WORKERS` workers, or more than a step has examples.
    """
    index, rows, counts = _in_memory(task)
    most = min(MOST_WORKERS, task.batch)
    shards = _shards(task, index + rows + counts, most)
    counted = np.arange(shards, most + 1)
    part = _part(task, counted)
    found = step(_model(task), _cluster(task), counted, counted * part)
    disk = _disk_seconds(task, part)
    epochs = (found.seconds + disk) * math.ceil(task.day_examples / task.batch)
    enough = np.flatnonzero(epochs <= DAY)
    at = int(enough[0]) if len(enough) else int(np.argmin(epochs))
    workers = int(counted[at])
    return Plan(
        index,
        rows,
        counts,
        task.rows * (1 - task.in_memory) * (task.row_bytes + RECORD_BYTES),
        shards,
        workers,
        bool(len(enough)),
        float(sent(_model(task), workers, workers * part[at])),
        float(found.compute[at]),
        float(found.reduce[at] + found.exchange[at]),
        float(disk[at]),
        float(epochs[at]),
        float(epochs[at]) / 3_600 * workers * task.price,
    )


def _in_memory(task: Task) -> tuple[float, float, float]:
    """Bytes of indexes, of rows, and of counts of ids without one."""
    here, below, unadmitted = task.rows * task.in_memory, task.rows * (1 - task.in_memory), task.ids - task.rows
    index = here * INDEX_BYTES + below * STORE_ENTRY_BYTES / STORE_LOAD
    counts = task.ids * BLOOM_BYTES if task.counting == "bloom" and unadmitted else unadmitted * INDEX_BYTES
    return index, here * task.row_bytes, counts


def _shards(task: Task, size: float, most: int) -> int:
    """The fewest workers that hold so many bytes and number all rows.

    Raises:
        CtrlabError: there are more than `most`.
    """
    by_memory = max(1, math.ceil(size / (task.memory * (1 - task.headroom))))
    by_rows = math.ceil(task.rows * task.in_memory / task.tables / MOST_ROWS)
    limit = "a plan is for" if most == MOST_WORKERS else "a step has an example for"
    if by_memory > most:
        raise CtrlabError(
            f"The tables fill {by_memory:,} memories of {task.memory / 1e9:,.4g} GB, but {limit} at most {most:,} workers. "
            "Admit fewer ids, keep fewer rows in memory, or give each worker more of it."
        )
    if by_rows > most:
        many = f"{task.rows * task.in_memory:,.4g} rows in {task.tables:,} table{'s' * (task.tables > 1)}"
        raise CtrlabError(
            f"A worker holds at most {MOST_ROWS:,} rows of a table in memory, so {many} take {by_rows:,} workers, but {limit} "
            f"at most {most:,}. Admit fewer ids, keep fewer rows in memory, or deal them to more tables."
        )
    return max(by_memory, by_rows)


FEATURES = {
    "admission": "a fifth of the ids get a row, the others are counted by a Bloom filter",
    "disk": "a tenth of the rows stay in memory",
    "bf16_exchange": "rows and their gradients travel in bfloat16; memory stays as it is",
}
"""What of an embedding engine changes the answer, as `with_feature` does it."""


def with_feature(task: Task, feature: str) -> Task:
    """The same task with one more of `FEATURES`."""
    choose("feature", feature, FEATURES)
    changes = {
        "admission": {"admission": 0.2 * task.admission, "counting": "bloom"},
        "disk": {"in_memory": 0.1 * task.in_memory},
        "bf16_exchange": {"exchange_bytes": 2},
    }
    return replace(task, **changes[feature])


def _part(task: Task, workers: int | np.ndarray) -> np.ndarray:
    """Examples of the worker with most of them."""
    return np.ceil(task.batch / workers)


def _model(task: Task) -> Model:
    # The simulator's rows are of float32; fewer bytes per number are as many fewer numbers.
    width = task.dim * task.exchange_bytes / FLOAT
    distinct = Distinct.zipf(task.ids, task.exponent, task.lookups)
    return Model(task.dense, task.fixed, task.per_example, dim=width, id_bytes=COUNTED_ID_BYTES, distinct=distinct)


def _cluster(task: Task) -> Cluster:
    link = Link.of(megabits=task.megabits, latency=task.latency)
    return Cluster(1, link, link, Host(1))


def _disk_seconds(task: Task, part: np.ndarray) -> np.ndarray:
    """Of a step, in which a worker reads the distinct ids of its part whose rows are not among the most frequent ones.

    These rows rise into memory, so as many others sink: they are written, in records. What compaction writes comes on top.
    """
    warm = task.rows * task.in_memory
    if warm > task.rows - 1:
        return np.zeros(len(part))
    cold = Distinct.zipf(task.ids, task.exponent, task.lookups, first=warm, last=task.rows)
    return cold(part) * (1 / task.reads + (task.row_bytes + RECORD_BYTES) / task.writes)

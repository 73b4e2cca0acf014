"""A plan for tables that no single machine holds: workers, memory, network, time and money, by arithmetic alone.

    memory   indexes + rows in memory + counts of ids without a row       -> the fewest workers that hold it
    speed    the simulated step of that many workers and of more          -> the fewest that keep up with each day's examples

Bytes per key are those of `ctrlab.embedding`'s tables and stores. Rows are dealt to workers by a hash, so shards are taken as
equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ctrlab.distributed.simulator.cluster import Cluster, Host, Link
from ctrlab.distributed.simulator.model import FLOAT, Distinct, Model
from ctrlab.distributed.simulator.step import sent, step
from ctrlab.distributed.task import DAY, Task
from ctrlab.embedding.analysis import FREQUENCY_BYTES, INDEX_BYTES
from ctrlab.embedding.store import segments
from ctrlab.errors import CtrlabError, choose
from ctrlab.plain import Plain

STORE_LOAD = 0.4
"""The lowest load factor of the in-memory index of rows on disk.

All its shards double at about the same time, when they are 0.8 full.

Source: native/store/store_index.h.
"""
STORE_ENTRY_BYTES = 16
RECORD_BYTES = segments.record(0).itemsize + segments.INDEX_BYTES + 4
"""Bytes on disk per row, besides its numbers and its frequency: the record's header, its entry in the file's index, the last
step.

Source: native/store/segment_format.h, native/table/tier.h.
"""
BLOOM_BYTES = -math.log(0.01) / math.log(2) ** 2
"""Bytes per expected key of a filter with 1-byte counters and 1 % false positives: `BloomFilter`'s defaults."""
COUNTED_ID_BYTES = 16
"""Bytes on the network for an id and its number of occurrences, 8 each."""
MOST_ROWS = 2**31 - 1
"""The most rows of a table in a worker's memory, by their numbers in native/table/index.h. Rows on disk have no such limit."""
MOST_WORKERS = 4_096


@dataclass(frozen=True)
class Plan(Plain):
    """The resources that a task needs.

    Attributes:
        index: bytes, of all workers together, of the tables' indexes and of the indexes of rows on disk.
        rows_in_memory, counts: bytes of all workers together: rows in memory; counts of ids without a row.
        on_disk: bytes of all workers together, without dead records: before compaction there are at most half as many as rows.
        shards: the fewest workers whose memory holds it, with at most `MOST_ROWS` rows of each table.
        workers: the fewest workers, at least `shards`, that keep up with each day's examples; the fastest number if none does. At
            most the number of examples per step.
        keeps_up: whether they keep up.
        sent: bytes that a worker sends per step.
        compute, network, disk: seconds per step, for the worker with most examples. Reads and writes on disk do not overlap with
            anything.
        epoch: seconds for a day's examples, in whole steps.
        cost: cost of that epoch.
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
    """Computes the plan of a task.

    Raises:
        CtrlabError: the task needs more than `MOST_WORKERS` workers, or more workers than a step has examples.
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
        task.rows * (1 - task.in_memory) * (_row_bytes(task) + RECORD_BYTES),
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


def _row_bytes(task: Task) -> float:
    """Bytes of one row with its slots and its frequency."""
    return task.dim * (task.value_bytes + FLOAT * task.slots) + FREQUENCY_BYTES


def _in_memory(task: Task) -> tuple[float, float, float]:
    """Bytes in memory: of indexes, of rows, and of counts of ids without a row."""
    here, below, unadmitted = task.rows * task.in_memory, task.rows * (1 - task.in_memory), task.ids - task.rows
    index = here * INDEX_BYTES + below * STORE_ENTRY_BYTES / STORE_LOAD
    counts = task.ids * BLOOM_BYTES if task.counting == "bloom" and unadmitted else unadmitted * INDEX_BYTES
    return index, here * _row_bytes(task), counts


def _shards(task: Task, size: float, most: int) -> int:
    """The fewest workers that hold this many bytes, and can number all rows.

    Raises:
        CtrlabError: more than `most` workers are needed.
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
"""The features of an embedding engine that change the plan; `with_feature` applies them."""


def with_feature(task: Task, feature: str) -> Task:
    """The task with one of `FEATURES` added."""
    choose("feature", feature, FEATURES)
    changes = {
        "admission": {"admission": 0.2 * task.admission, "counting": "bloom"},
        "disk": {"in_memory": 0.1 * task.in_memory},
        "bf16_exchange": {"exchange_bytes": 2},
    }
    return replace(task, **changes[feature])


def _part(task: Task, workers: int | np.ndarray) -> np.ndarray:
    """Number of examples of the worker with most examples."""
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
    """Seconds of disk access per step. A worker reads the rows of its distinct ids that are not among the most frequent ones.
    These rows move into memory, so as many others are written to disk as records. Compaction writes more, which is added.
    """
    warm = task.rows * task.in_memory
    if warm > task.rows - 1:
        return np.zeros(len(part))
    cold = Distinct.zipf(task.ids, task.exponent, task.lookups, first=warm, last=task.rows)
    return cold(part) * (1 / task.reads + (_row_bytes(task) + RECORD_BYTES) / task.writes)

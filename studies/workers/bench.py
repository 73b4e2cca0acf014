"""Measures steps of several workers over slow links, and compares the bytes that they send with the least possible.

Each number of workers is a group of processes on hosts of `links`. The rates of its links change from block to block of one
group, so that noise affects all equally. Besides, one process takes the step of one worker's part: the same computing without
exchanges, with the machine for itself.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

from ctrlab.lessons.topics.more_workers.measured import Found, Measured
from ctrlab.lessons.topics.more_workers.one_process import Job
from ctrlab.lessons.topics.more_workers.traffic import Traffic

from ctrlab.distributed.place import Place, threads_of
from ctrlab.profiling.processes import Worker
from ctrlab.profiling.timing import paired
from studies.processes import command_of
from studies.workers.links import Host, hosts

PORT = 7077
COMMAND = tuple(command_of("studies.workers.worker"))
BLOCK_SECONDS = 0.4
LEAST_STEPS = 3
ALONE = "alone"
"""The name of the side with one process and one worker's part of the batch."""


def bench(
    job: Job,
    batches: Sequence[int],
    counts: Sequence[int],
    rates: Sequence[float],
    rounds: Callable[[str], Iterable],
) -> Found:
    """Measures each batch size with each number of workers, over links of each rate and without a limit.

    Args:
        rounds: returns the rounds of a group for its name; it may show progress.
    Raises:
        CtrlabError: links can't be made here; a worker failed.
    """
    measured: list[Measured] = []
    alone: list[Measured] = []
    for workers in counts:
        with _group(job, workers) as (group, lines), _worker("one process", {}, _threads(workers)) as single:
            single.ask("open", **asdict(job))
            for batch in batches:
                several, part = _measured(job, batch, group, lines, rates, single, rounds(f"{workers} workers, {batch} examples"))
                measured += several
                alone.append(part)
    return Found(tuple(measured), tuple(alone))


def _measured(
    job: Job, batch: int, group: Group, lines: Sequence[Host], rates: Sequence[float], single: Worker, rounds: Iterable
) -> tuple[list[Measured], Measured]:
    """A group's steps over each link, and the steps of one worker's part in one process."""
    workers = len(lines)
    facts, *_ = group.ask("prepare", batch=batch)
    part = facts.pop("rows")
    single.ask("prepare", batch=part)
    least = Traffic.from_json(single.ask("least", batch=batch, workers=workers))
    sides = {rate: _Side(group, lines, rate, batch) for rate in (None, *rates)}
    steps = max(LEAST_STEPS, round(BLOCK_SECONDS / sides[None].block(LEAST_STEPS)))
    blocks: dict = {rate: functools.partial(side.block, steps) for rate, side in sides.items()}
    blocks[ALONE] = lambda: single.ask("train", batch=part, steps=steps)["seconds"] / steps
    seconds = paired(blocks, rounds)
    several = [
        Measured(
            job.model,
            batch,
            workers,
            rate,
            tuple(seconds[rate]),
            side.bytes,
            side.packets,
            least=least,
            threads=_threads(workers),
            **facts,
        )
        for rate, side in sides.items()
    ]
    own = {"seconds": tuple(seconds[ALONE]), "bytes": 0.0, "packets": 0.0, "reduces": 0, "exchanges": 0}
    return several, replace(several[0], batch=part, workers=1, least=Traffic(0.0, 0.0, 0.0, 0.0, least.distinct), **own)


class Group:
    """Workers that get each request together."""

    def __init__(self, workers: Sequence[Worker]):
        self.workers = workers
        self._pool = ThreadPoolExecutor(len(workers))

    def ask(self, do: str, **details) -> list[dict]:
        return list(self._pool.map(lambda worker: worker.ask(do, **details), self.workers))


class _Side:
    """A group over links of one rate. It counts the bytes that its blocks send."""

    def __init__(self, group: Group, lines: Sequence[Host], megabits: float | None, batch: int):
        self._group, self._lines, self._megabits, self._batch = group, lines, megabits, batch
        self._steps = self._bytes = self._packets = 0

    def block(self, steps: int) -> float:
        for host in self._lines:
            host.set_rate(self._megabits)
        before = [host.sent() for host in self._lines]
        seconds = max(answer["seconds"] for answer in self._group.ask("train", batch=self._batch, steps=steps))
        sent = [host.sent() - earlier for host, earlier in zip(self._lines, before)]
        self._steps += steps * len(sent)
        self._bytes += sum(each.bytes for each in sent)
        self._packets += sum(each.packets for each in sent)
        return seconds / steps

    @property
    def bytes(self) -> float:
        return self._bytes / self._steps

    @property
    def packets(self) -> float:
        return self._packets / self._steps


@contextlib.contextmanager
def _group(job: Job, count: int) -> Iterator[tuple[Group, Sequence[Host]]]:
    with hosts(count) as lines, contextlib.ExitStack() as last:
        addresses = tuple(f"{host.address}:{PORT}" for host in lines)
        started = [
            last.enter_context(_worker(f"worker {i} of {count}", Place(addresses, i).config(), _threads(count), host.enter))
            for i, host in enumerate(lines)
        ]
        group = Group(started)
        group.ask("open", **asdict(job))
        yield group, lines


def _worker(what: str, place: dict[str, str], threads: int, enter: Sequence[str] = ()) -> Worker:
    # A worker that stands still is taken for lost by the others.
    return Worker(what, [*enter, *COMMAND], place | threads_of(threads), stops=False)


def _threads(workers: int) -> int:
    return max(1, (os.cpu_count() or 1) // workers)

"""Steps of several workers that were measured over slow links: the records of `ctrlab bench workers`."""

from __future__ import annotations

from dataclasses import dataclass

from ctrlab.distributed.traffic import Traffic
from ctrlab.plain import Plain
from ctrlab.profiling.timing import Interval


@dataclass(frozen=True)
class Measured(Plain):
    """The steps of one group with one batch size over links of one rate.

    Attributes:
        model, batch, workers: B examples are shared among W workers.
        megabits: of each worker's link per second, each way; None: as fast as the machine.
        seconds: of a step, by block; round i is the same in all of a group.
        bytes, packets: that a worker sent per step on average.
        reduces, exchanges: all-reduces and all-to-alls of a step.
        least: what it must send.
        threads: of each worker's ops.
    """

    model: str
    batch: int
    workers: int
    megabits: float | None
    seconds: tuple[float, ...]
    bytes: float
    packets: float
    reduces: int
    exchanges: int
    least: Traffic
    threads: int

    @property
    def link_seconds(self) -> float:
        """Seconds that the link needs for a step's bytes; 0 if it is as fast as the machine."""
        return 0.0 if self.megabits is None else 8 * self.bytes / (1e6 * self.megabits)

    def most_hidden(self, alone: Measured) -> float:
        """The largest share of `link_seconds` that one worker's own computing, `alone`, could hide."""
        return min(1.0, Interval.of(alone.seconds).median / self.link_seconds)

    def hidden(self, free: Measured) -> Interval:
        """The share of `link_seconds` by which the step does not get longer: hidden behind the computing."""
        return Interval.of([1 - (slow - fast) / self.link_seconds for slow, fast in zip(self.seconds, free.seconds)])


@dataclass(frozen=True)
class Found(Plain):
    """What `bench` measured.

    Attributes:
        measured: of several workers, over links.
        alone: of one process without exchanges, with the `batch` examples of one worker: one for each of `measured` without a
            rate, in the same order.
    """

    measured: tuple[Measured, ...]
    alone: tuple[Measured, ...]

    def of(self, batch: int, workers: int, megabits: float | None) -> Measured:
        return next(m for m in self.measured if (m.batch, m.workers, m.megabits) == (batch, workers, megabits))

    def part(self, of: Measured) -> Measured:
        """One worker's part of that, alone, in the same rounds."""
        free = [m for m in self.measured if m.megabits is None]
        return next(alone for alone, m in zip(self.alone, free) if (m.batch, m.workers) == (of.batch, of.workers))

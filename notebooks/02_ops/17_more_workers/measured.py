"""Steps of several workers that were measured over slow links: the records of `ctrlab bench workers`."""

from __future__ import annotations

from dataclasses import dataclass

from ctrlab.lessons.topics.more_workers.traffic import Traffic

from ctrlab.plain import Plain
from ctrlab.profiling.timing import Interval


@dataclass(frozen=True)
class Measured(Plain):
    """The steps of one group with one batch size over links of one rate.

    Attributes:
        model, batch, workers: B examples are shared among W workers.
        megabits: rate of each worker's link in Mbit/s, each way; None: as fast as the machine.
        seconds: seconds per step, by block; round i is the same in all settings of a group.
        bytes, packets: bytes and packets that a worker sent per step, on average.
        reduces, exchanges: number of all-reduces and all-to-alls per step.
        least: the least traffic per step.
        threads: number of threads of each worker's ops.
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
        """The largest fraction of `link_seconds` that could overlap with one worker's own computing, whose steps are `alone`."""
        return min(1.0, Interval.of(alone.seconds).median / self.link_seconds)

    def hidden(self, free: Measured) -> Interval:
        """The fraction of `link_seconds` that is hidden behind computing, because it does not lengthen the step of `free`
        links.
        """
        return Interval.of([1 - (slow - fast) / self.link_seconds for slow, fast in zip(self.seconds, free.seconds)])


@dataclass(frozen=True)
class Found(Plain):
    """The measurements of `bench`.

    Attributes:
        measured: steps of several workers, over links.
        alone: steps of one process without exchanges, with the examples of one worker as `batch`: one for each of `measured`
            without a rate, in the same order.
    """

    measured: tuple[Measured, ...]
    alone: tuple[Measured, ...]

    def of(self, batch: int, workers: int, megabits: float | None) -> Measured:
        return next(m for m in self.measured if (m.batch, m.workers, m.megabits) == (batch, workers, megabits))

    def part(self, of: Measured) -> Measured:
        """The measurement of one worker's part of these steps, without exchanges, in the same rounds."""
        free = [m for m in self.measured if m.megabits is None]
        return next(alone for alone, m in zip(self.alone, free) if (m.batch, m.workers) == (of.batch, of.workers))

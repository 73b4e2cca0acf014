"""The least work of a computation, and the least time that a machine needs for it. Plain arithmetic."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ctrlab.plain import Plain


@dataclass(frozen=True)
class Work(Plain):
    """The least work of a computation, which no implementation can avoid.

    Args:
        flops: float32 additions and multiplications (a multiply-add is two).
        bytes: bytes that must stream from or to memory: each input read once, each output written once.
        random_rows: rows at addresses that no prefetcher can predict (embedding rows). A row that is read and written back counts
            once, because the write hits the cache.
        row_bytes: bytes per such row.
        sigmoids: sigmoids and hyperbolic tangents.

    >>> Work(flops=2e9) + Work(bytes=1e6, random_rows=512)
    Work(flops=2000000000.0, bytes=1000000.0, random_rows=512, row_bytes=64, sigmoids=0)
    """

    flops: float = 0
    bytes: float = 0
    random_rows: float = 0
    row_bytes: float = 64
    sigmoids: float = 0

    def __add__(self, other: Work) -> Work:
        rows = self.random_rows + other.random_rows
        row_bytes = self.row_bytes if self.random_rows else other.row_bytes
        if self.random_rows and other.random_rows and self.row_bytes != other.row_bytes:
            row_bytes = (self.random_rows * self.row_bytes + other.random_rows * other.row_bytes) / rows
        return Work(self.flops + other.flops, self.bytes + other.bytes, rows, row_bytes, self.sigmoids + other.sigmoids)

    def __mul__(self, times: float) -> Work:
        """The same work, done `times` times."""
        rows = self.random_rows * times
        return Work(self.flops * times, self.bytes * times, rows, self.row_bytes, self.sigmoids * times)

    __rmul__ = __mul__

    @property
    def intensity(self) -> float:
        """Flops per byte of memory traffic, the x axis of a roofline chart; infinite without traffic."""
        traffic = self.bytes + self.random_rows * self.row_bytes
        return self.flops / traffic if traffic else float("inf")


def dense_work(sizes: Sequence[int], rows: float) -> Work:
    """Forward and backward of dense layers of `sizes` on `rows` rows: three products of 2 in out flops per layer and row."""
    pairs = list(itertools.pairwise(sizes))
    flops = sum(6.0 * rows * i * o for i, o in pairs)
    # Activations are written and read once in each direction; kernels are read twice and their gradient is written once.
    floats = sum(4 * rows * o + 3 * i * o for i, o in pairs)
    return Work(flops=flops, bytes=4.0 * floats)


@dataclass(frozen=True)
class Ceilings(Plain):
    """The highest measured rate of each kind of work on this machine (roofline.py measures them).

    Attributes:
        sgemm: float32 matrix multiplication, FLOP/s.
        bf16: the same in bfloat16, FLOP/s.
        stream: bytes/s read plus written by all threads, in arrays much larger than the caches.
        stream_one_thread: the same by one thread.
        random_rows: 64-byte rows/s gathered from uniformly random positions in a table much larger than the caches, all threads.
        sigmoids: sigmoids or hyperbolic tangents/s in arrays that stay in the first caches, all threads.
        device: the device line of the measured machine.
    """

    sgemm: float
    bf16: float
    stream: float
    stream_one_thread: float
    random_rows: float
    sigmoids: float
    device: str = ""


def parts(work: Work, ceilings: Ceilings) -> dict[str, float]:
    """Seconds at the ceiling for each kind of work: {"compute", "sigmoids", "stream", "random"}.

    A row longer than a cache line takes at least its bytes at the streaming rate, so each row costs the larger of the two times.
    """
    row_seconds = max(1 / ceilings.random_rows, work.row_bytes / ceilings.stream)
    return {
        "compute": work.flops / ceilings.sgemm,
        "sigmoids": work.sigmoids / ceilings.sigmoids,
        "stream": work.bytes / ceilings.stream,
        "random": work.random_rows * row_seconds,
    }


def bound(work: Work, ceilings: Ceilings) -> float:
    """The least time that `work` can take, in seconds: max(compute + sigmoids, stream + random).

    Arithmetic overlaps with memory access, so the longer of the two counts. Streaming and random access add up, because both use
    the same miss buffers and the same bus. Work that depends on earlier work cannot overlap with it; in that case add the bounds
    of the phases instead of their Work.

    Sigmoids add to the products, because both are multiply-adds in the same units: a sigmoid is a quotient of two polynomials.
    Only its division has a unit of its own, which products of a later layer could hide.

    Source: Williams, Waterman, Patterson, "Roofline", CACM 2009; the random-row term is this lab's own.
    """
    seconds = parts(work, ceilings)
    return max(seconds["compute"] + seconds["sigmoids"], seconds["stream"] + seconds["random"])

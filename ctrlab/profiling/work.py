"""What a computation has to do at least, and the least time that a machine needs for it. Plain arithmetic."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ctrlab.plain import Plain


@dataclass(frozen=True)
class Work(Plain):
    """The floor of a computation: what no implementation can leave out.

    Args:
        flops: float32 additions and multiplications (a multiply-add is two).
        bytes: bytes that must stream to or from memory: each input read once, each output written once.
        random_rows: rows fetched from places that no prefetcher can guess (embedding rows; a row that is read and written
            back counts once, the write finds it in the cache).
        row_bytes: bytes of such a row.

    >>> Work(flops=2e9) + Work(bytes=1e6, random_rows=512)
    Work(flops=2000000000.0, bytes=1000000.0, random_rows=512, row_bytes=64)
    """

    flops: float = 0
    bytes: float = 0
    random_rows: float = 0
    row_bytes: float = 64

    def __add__(self, other: Work) -> Work:
        rows = self.random_rows + other.random_rows
        row_bytes = self.row_bytes if self.random_rows else other.row_bytes
        if self.random_rows and other.random_rows and self.row_bytes != other.row_bytes:
            row_bytes = (self.random_rows * self.row_bytes + other.random_rows * other.row_bytes) / rows
        return Work(self.flops + other.flops, self.bytes + other.bytes, rows, row_bytes)

    def __mul__(self, times: float) -> Work:
        """The same work done `times` times."""
        return Work(self.flops * times, self.bytes * times, self.random_rows * times, self.row_bytes)

    __rmul__ = __mul__

    @property
    def intensity(self) -> float:
        """Flops a byte of memory traffic, the x axis of a roofline chart; infinite where there is no traffic."""
        traffic = self.bytes + self.random_rows * self.row_bytes
        return self.flops / traffic if traffic else float("inf")


def dense_work(sizes: Sequence[int], rows: float) -> Work:
    """Forward and backward of dense layers of `sizes` on `rows` rows: three products of 2 in out flops each a layer."""
    pairs = list(itertools.pairwise(sizes))
    flops = sum(6.0 * rows * i * o for i, o in pairs)
    # Activations are written and read once each way; kernels are read twice and their gradient is written once.
    floats = sum(4 * rows * o + 3 * i * o for i, o in pairs)
    return Work(flops=flops, bytes=4.0 * floats)


@dataclass(frozen=True)
class Ceilings(Plain):
    """The most that this machine did of each kind of work (see roofline.py for how it is measured).

    Attributes:
        sgemm: float32 matrix multiplication, FLOP/s.
        bf16: the same in bfloat16, FLOP/s.
        stream: bytes/s read plus written by all threads, far past the caches.
        stream_one_thread: the same by one thread.
        random_rows: rows/s of 64 bytes gathered from uniformly random places far past the caches, all threads.
        device: the device line of the machine that was measured.
    """

    sgemm: float
    bf16: float
    stream: float
    stream_one_thread: float
    random_rows: float
    device: str = ""


def parts(work: Work, ceilings: Ceilings) -> dict[str, float]:
    """Seconds at the ceiling for each kind of work: {"compute", "stream", "random"}.

    A row longer than a cache line costs at least its bytes at the streaming rate, so a random row costs the dearer of the two.
    """
    row_seconds = max(1 / ceilings.random_rows, work.row_bytes / ceilings.stream)
    return {
        "compute": work.flops / ceilings.sgemm,
        "stream": work.bytes / ceilings.stream,
        "random": work.random_rows * row_seconds,
    }


def bound(work: Work, ceilings: Ceilings) -> float:
    """The least seconds that `work` can take: max(compute, stream + random).

    Arithmetic goes on while memory is fetched, so of those two the longer decides. Streaming and random fetches add up:
    both wait in the same miss buffers of the cores and travel the same bus. Work that depends on earlier work cannot
    overlap it; where that is so, add the bounds of the phases instead of their Work.

    Source: Williams, Waterman, Patterson, "Roofline", CACM 2009; the random-row term is this lab's own.
    """
    seconds = parts(work, ceilings)
    return max(seconds["compute"], seconds["stream"] + seconds["random"])

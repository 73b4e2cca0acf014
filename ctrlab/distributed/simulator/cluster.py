"""The hardware of workers: the links between them, and the hosts that drive them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ctrlab.distributed import require
from ctrlab.plain import Plain

Numbers = float | np.ndarray


@dataclass(frozen=True)
class Link(Plain):
    """A message of n bytes takes latency + n per_byte.

    Attributes:
        latency: seconds per message (alpha).
        per_byte: seconds per byte (beta); 8e-9 is 1 Gbit/s.
    """

    latency: float
    per_byte: float

    def __post_init__(self):
        require.attributes("A link", self, latency=0, per_byte=0)

    @classmethod
    def of(cls, *, megabits: float, latency: float) -> Link:
        """A link with this rate, in megabits per second.

        >>> Link.of(megabits=1_000, latency=50e-6).per_byte
        8e-09
        """
        cure = "A link whose bytes take no time is Link(latency, 0)."
        rate = require.numbers("A link's megabits per second", megabits, 0, above=True, single=True, cure=cure)
        return cls(latency, float(8e-6 / rate))


@dataclass(frozen=True)
class Host(Plain):
    """The processors that drive the workers of a node. A thread's work takes longer if there are more threads than cores.

    Attributes:
        cores: number of cores per node.
        threads: number of threads that each worker keeps busy.
        busy: number of further busy threads, which read and parse input.
        computes: whether these cores also do the workers' own computing; False with accelerators.
        launch: seconds of a thread per kernel that it launches on a device.
        tensor: seconds of a thread per tensor that it passes to a device.
        copy: seconds per byte from the host's memory to a device.
        loop: whether one loop passes the batch to all devices of a node, one after the other; False: a process per worker.
        message: seconds of a thread per message to another worker.
        byte: least seconds per byte of the host for any link, because packets take CPU time, too.
    """

    cores: float
    threads: float = 1.0
    busy: float = 0.0
    computes: bool = False
    launch: float = 0.0
    tensor: float = 0.0
    copy: float = 0.0
    loop: bool = False
    message: float = 0.0
    byte: float = 0.0

    def __post_init__(self):
        least = {"threads": 0, "busy": 0, "launch": 0, "tensor": 0, "copy": 0, "message": 0, "byte": 0}
        require.attributes("A host", self, cores=1, **least)
        require.kinds("A host", self, computes=bool, loop=bool)

    def slower(self, workers: Numbers) -> Numbers:
        """The factor by which a thread is slower on a node with this number of workers: threads over cores, at least 1."""
        return np.maximum(1.0, (workers * self.threads + self.busy) / self.cores)


@dataclass(frozen=True)
class Cluster(Plain):
    """Nodes of equal workers. The workers of a node share its link to the other nodes.

    Attributes:
        per_node: number of workers per full node.
        inside: the link between two workers of a node.
        between: the link of a node to the others.
    """

    per_node: int
    inside: Link
    between: Link
    host: Host

    def __post_init__(self):
        require.numbers("A cluster's workers per node", self.per_node, 1, whole=True, single=True)
        require.kinds("A cluster", self, inside=Link, between=Link, host=Host)

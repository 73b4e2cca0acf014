"""What workers run on: the links between them, and the hosts that drive them."""

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
        per_byte: seconds (beta); 8e-9 is 1 Gbit/s.
    """

    latency: float
    per_byte: float

    def __post_init__(self):
        require.attributes("A link", self, latency=0, per_byte=0)

    @classmethod
    def of(cls, *, megabits: float, latency: float) -> Link:
        """A link of so many megabits per second.

        >>> Link.of(megabits=1_000, latency=50e-6).per_byte
        8e-09
        """
        cure = "A link whose bytes take no time is Link(latency, 0)."
        rate = require.numbers("A link's megabits per second", megabits, 0, above=True, single=True, cure=cure)
        return cls(latency, float(8e-6 / rate))


@dataclass(frozen=True)
class Host(Plain):
    """The processors that drive the workers of a node. What a thread does takes longer where threads outnumber the cores.

    Attributes:
        cores: of a node.
        threads: that each worker keeps busy.
        busy: threads beside those, which read and parse input.
        computes: whether the workers' own computing is done by these cores, too; False with accelerators.
        launch: seconds of a thread per kernel that it launches on a device.
        tensor: seconds of a thread per tensor that it hands to a device.
        copy: seconds per byte from the host's memory to a device.
        loop: whether one loop hands the batch to all devices of a node, one after the other; False: a process per worker.
        message: seconds of a thread per message to another worker.
        byte: seconds per byte that a host needs at least, whatever the link: packets take their time, too.
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
        """How many times as long a thread takes on a node with so many workers: threads over cores, at least 1."""
        return np.maximum(1.0, (workers * self.threads + self.busy) / self.cores)


@dataclass(frozen=True)
class Cluster(Plain):
    """Nodes of equal workers. Workers of a node share its link to the other nodes.

    Attributes:
        per_node: workers of a full node.
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

"""An instance: a place for a server's process, with its state; and the choice of an instance for a request.

    starting --port--> warming --answered each model--> ready --to be replaced, or stops--> draining --> stopped, or starting
                                                        |   ^
                            a connection to it broke    v   |  it says that it is there
                                                       suspect

In each state its process may end: then the instance is `crashed`, and after a while `starting` again. Only `ready` takes new
requests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ctrlab.fleet.instances.upstream import Upstream


class State(StrEnum):
    """The state of an instance."""

    STARTING = "starting"
    WARMING = "warming"
    READY = "ready"
    SUSPECT = "suspect"
    DRAINING = "draining"
    CRASHED = "crashed"
    STOPPED = "stopped"


@dataclass(eq=False)
class Instance:
    """One instance of a fleet. It keeps its name when it gets a new process.

    Attributes:
        inside: number of requests that it works on.
        last: number of the last request that it was given, counted over all instances.
        starts: number of processes that it has had.
        why: why its last process ended; "" if none has.
    """

    name: str
    arm: str
    cpus: frozenset[int] = frozenset()
    state: State = State.STARTING
    since: float = field(default_factory=time.time)
    inside: int = 0
    last: int = 0
    starts: int = 0
    pid: int = 0
    why: str = ""
    upstream: Upstream | None = None
    leave: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """Set when the instance shall be drained."""
    doubted: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """Set when the instance shall be asked whether it is alive."""

    def told(self) -> dict:
        """The instance's state as plain values, for people."""
        port = self.upstream.port if self.upstream else 0
        seconds = round(time.time() - self.since, 1)
        about = {"name": self.name, "arm": self.arm, "state": self.state.value, "for_seconds": seconds, "inside": self.inside}
        return about | {"pid": self.pid, "port": port, "starts": self.starts, "last_end": self.why}


Choose = Callable[[Sequence[Instance], Collection[str]], Instance | None]
"""(instances, names of those that were given the request before) -> the instance that gets it; None: the request waits."""


def least_inside(instances: Sequence[Instance], tried: Collection[str]) -> Instance | None:
    """The ready instance with the fewest requests inside; among equals, the one whose last request was longest ago. An
    instance that was tried before is chosen only if there is no other.
    """
    ready = [instance for instance in instances if instance.state is State.READY]
    fresh = [instance for instance in ready if instance.name not in tried]
    return min(fresh or ready, key=lambda instance: (instance.inside, instance.last), default=None)


class Changed:
    """A signal of changes: `tell` wakes all tasks that wait."""

    def __init__(self):
        self._event = asyncio.Event()

    def tell(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        """Waits until the next `tell`."""
        await self._event.wait()

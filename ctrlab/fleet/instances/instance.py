"""An instance: a place for a server's process, what is known of it, and which instance a request goes to.

    starting --port--> warming --answered each model--> ready --to be replaced, or stops--> draining --> stopped, or starting
                                                        |   ^
                            a connection to it broke    v   |  it says that it is there
                                                       suspect

In each state its process may end: then it is `crashed`, and after a while `starting` again. Only `ready` takes new requests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ctrlab.fleet.instances.upstream import Upstream


class State(StrEnum):
    """Of an instance."""

    STARTING = "starting"
    WARMING = "warming"
    READY = "ready"
    SUSPECT = "suspect"
    DRAINING = "draining"
    CRASHED = "crashed"
    STOPPED = "stopped"


@dataclass(eq=False)
class Instance:
    """One of a fleet. It keeps its name when its process is another.

    Attributes:
        inside: requests that it works on.
        last: when it was given its last one, as a count of all requests.
        starts: how many processes it has had.
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
    """Set: it is to be drained."""
    doubted: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """Set: it is to be asked whether it is there."""

    def told(self) -> dict:
        """What a person is told of it."""
        port = self.upstream.port if self.upstream else 0
        seconds = round(time.time() - self.since, 1)
        about = {"name": self.name, "arm": self.arm, "state": self.state.value, "for_seconds": seconds, "inside": self.inside}
        return about | {"pid": self.pid, "port": port, "starts": self.starts, "last_end": self.why}


Choose = Callable[[Sequence[Instance], Collection[str]], Instance | None]
"""Which of these instances gets a request that those with these names were given before; None: it waits."""


def least_inside(instances: Sequence[Instance], tried: Collection[str]) -> Instance | None:
    """Of those that are ready, the one with the fewest requests inside; of several, the one that was given none for longest.
    One that was tried is taken only where there is no other."""
    ready = [instance for instance in instances if instance.state is State.READY]
    fresh = [instance for instance in ready if instance.name not in tried]
    return min(fresh or ready, key=lambda instance: (instance.inside, instance.last), default=None)


class Changed:
    """Something has changed: wakes all who wait for it."""

    def __init__(self):
        self._event = asyncio.Event()

    def tell(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        """Until the next `tell`."""
        await self._event.wait()

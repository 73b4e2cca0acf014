"""A fleet as one request sees it, for the lesson on fleets: instances, the outcomes of sending to one, and waiting for changes.

    fleet.instances()             [Seen(name, state, inside), ...] as they are now
    fleet.send(request, name)     the answer of that instance; raises Refused or Broken
    fleet.wait()                  returns when an instance has changed its state; raises Late when there is no more time

An instance that refused or broke a request is `suspect` until it reports that it is alive.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ctrlab.errors import CtrlabError

TRIES = 2
MOST_SENT = 100
MOST_LOOKS = 100
"""The most looks at the instances without sending or waiting in between, so that nothing can have changed."""


class Seen(NamedTuple):
    """An instance at a moment: its name, its state, and how many requests are inside."""

    name: str
    state: str
    inside: int


class Refused(CtrlabError):
    """The instance took no connection: nothing was sent."""


class Broken(CtrlabError):
    """The instance's process ended with the request inside."""


class Late(CtrlabError):
    """The request has no more time to wait."""


Deliver = Callable[[str, object], object]
"""(request, fleet) -> the answer."""


def deliver_by_the_rules(request, fleet):
    """The definition: what `docs/deploy/haproxy.cfg` does, and waiting."""
    broken = 0
    while True:
        ready = [each for each in fleet.instances() if each.state == "ready"]
        if not ready:
            fleet.wait()
            continue
        try:
            return fleet.send(request, min(ready, key=lambda each: each.inside).name)
        except Refused:
            pass
        except Broken:
            broken += 1
            if broken == TRIES:
                raise


def in_turn(request, fleet, turns=itertools.count()):  # noqa: B008 (one for all requests)
    """A simple balancer: each instance in turn, whatever its state."""
    instances = fleet.instances()
    return fleet.send(request, instances[next(turns) % len(instances)].name)


class Script(NamedTuple):
    """The events of one request.

    Attributes:
        steps: the instances at first, and after each `wait`.
        outcomes: the outcome of each `send`: answer, broken or refused; when they are used up, answer.
    """

    number: int
    steps: tuple[tuple[Seen, ...], ...]
    outcomes: tuple[str, ...]


class ScriptedFleet:
    """A fleet that follows a script.

    Attributes:
        sent: the instances to which the request was sent. waits: number of waits.
    Raises:
        CtrlabError: the request is sent to an unknown instance, is changed, or is sent or looks around without end.
    """

    def __init__(self, script: Script):
        self.sent: list[str] = []
        self.waits = 0
        self._script, self._left = script, list(script.outcomes)
        self._now, self._step, self._looks = list(script.steps[0]), 0, 0

    def instances(self) -> list[Seen]:
        self._looks += 1
        if self._looks > MOST_LOOKS:
            raise CtrlabError(
                f"Nothing changes while a request only looks; this one looked {MOST_LOOKS} times: call fleet.wait()."
            )
        return list(self._now)

    def send(self, request: str, name: str) -> str:
        if request != f"request {self._script.number}":
            raise CtrlabError(f"The request is sent as it is; this one is {request!r}.")
        place = next((n for n, each in enumerate(self._now) if each.name == name), None)
        if place is None:
            raise CtrlabError(f"A request is sent to an instance's name; received {name!r}.")
        self._looks = 0
        self.sent.append(name)
        if len(self.sent) > MOST_SENT:
            raise CtrlabError(f"A request is not sent on and on; this one was sent {len(self.sent)} times.")
        outcome = self._left.pop(0) if self._left else "answer"
        if outcome == "answer":
            return f"{name} answers {request}"
        self._now[place] = self._now[place]._replace(state="suspect")
        raise (Broken if outcome == "broken" else Refused)(f"Instance {name} is gone.")

    def wait(self) -> None:
        self._looks = 0
        self.waits += 1
        self._step += 1
        if self._step >= len(self._script.steps):
            raise Late("There is no more time.")
        self._now = list(self._script.steps[self._step])


@dataclass(frozen=True)
class Life:
    """The life of an instance, in seconds from the beginning.

    Attributes:
        states: [(start, state)], ascending. A process that has ended is noticed only when a request breaks.
        dead: [(from, until)]: the times without a process.
    """

    states: Sequence[tuple[float, str]] = ((0.0, "ready"),)
    dead: Sequence[tuple[float, float]] = ()

    def state(self, at: float) -> str:
        return [state for since, state in self.states if since <= at][-1]


@dataclass
class Replayed:
    """A fleet as seen by one request that comes at a moment of its instances' lives; a call takes no time.

    Attributes:
        at: seconds; it moves while the request waits.
    """

    lives: Mapping[str, Life]
    at: float
    patience: float = 5.0
    _suspects: set[str] = field(default_factory=set)

    def instances(self) -> list[Seen]:
        return [Seen(name, "suspect" if name in self._suspects else life.state(self.at), 0) for name, life in self.lives.items()]

    def send(self, request: str, name: str) -> str:
        life = self.lives[name]
        if any(since <= self.at < until for since, until in life.dead) or life.state(self.at) in ("starting", "stopped"):
            self._suspects.add(name)
            raise Refused(f"Instance {name} takes no connection.")
        return name

    def wait(self) -> None:
        later = [since for life in self.lives.values() for since, _ in life.states if self.at < since <= self.at + self.patience]
        if not later:
            raise Late("There is no more time.")
        self.at, self._suspects = min(later), set()


def failed_percent(deliver: Deliver, lives: Mapping[str, Life], seconds: float, per_second: float = 20.0) -> float:
    """The percentage of requests at equal intervals that are not answered."""
    count = int(seconds * per_second)
    failed = 0
    for number in range(count):
        try:
            deliver(f"request {number}", Replayed(lives, number / per_second))
        except CtrlabError:
            failed += 1
    return 100 * failed / count

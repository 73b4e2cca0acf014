"""For the lesson on fleets: users who come again, real instances that are killed on purpose, and how many a load needs."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np
from ctrlab.lessons.topics.fleet.deliveries import Broken, Deliver, Late, Life, Refused, Seen

from ctrlab.errors import CtrlabError
from ctrlab.fleet.allocation import predicted
from ctrlab.fleet.curve import Load, ServiceCurve
from ctrlab.fleet.exported import Exported
from ctrlab.fleet.instances import upstream
from ctrlab.fleet.instances.instance import Instance, State
from ctrlab.fleet.instances.plan import Plan
from ctrlab.fleet.instances.run import Fleet, Running, running
from ctrlab.load import arrivals, client, server
from ctrlab.profiles import Profile
from ctrlab.serving.labels import set_label

ArmOf = Callable[[str, str, Mapping[str, float]], str]
"""(user, experiment, percents) -> the arm."""
NAME = "deepfm"
ROWS = 16
CLIENTS = 32
MOST_SECONDS = 20.0
"""A request waits no longer."""
DRAWN_SECONDS = 0.25
SPREAD = (0.6, 0.8, 1.0, 1.2, 1.4)
"""Of a call's time, around its mean."""
MOST_INSTANCES = 64

REPLACED = ((0, "draining"), (1, "starting"), (8, "warming"), (9, "ready"))
"""An instance's states, and the seconds from when its process is replaced."""


def _later(seconds: float) -> tuple[tuple[float, str], ...]:
    return tuple((seconds + since, state) for since, state in REPLACED)


OUTAGES = {
    "i1": Life(((0, "ready"), (10, "crashed"), *_later(10)[1:], *_later(30)), dead=((10, 18),)),
    "i2": Life(((0, "ready"), *_later(40))),
}
"""A minute of two instances: the first crashes, then both are replaced, one after the other."""


def both_percent(arm_of: ArmOf, visits: int, percent: float = 50.0, users: int = 2_000) -> float:
    """How many percent of the users meet both arms in so many visits."""
    percents = {"control": 100 - percent, "new": percent}
    arms = [{arm_of(f"A{user}", "ranking", percents) for _ in range(visits)} for user in range(users)]
    return 100 * sum(len(each) > 1 for each in arms) / users


def moved_percent(arm_of: ArmOf, before: float, after: float, users: int = 5_000) -> float:
    """How many percent of the users change their arm when the second arm's percent is changed."""
    ways = [{"control": 100 - percent, "new": percent} for percent in (before, after)]
    moves = sum(arm_of(f"A{user}", "ranking", ways[0]) != arm_of(f"A{user}", "ranking", ways[1]) for user in range(users))
    return 100 * moves / users


def crossed(arm_of: ArmOf, one: str, other: str, users: int = 5_000) -> dict[tuple[str, str], float]:
    """{(arm in one experiment, arm in the other): percent of the users}, both split in halves."""
    halves = {"a": 50, "b": 50}
    pairs = [(arm_of(f"A{user}", one, halves), arm_of(f"A{user}", other, halves)) for user in range(users)]
    return {pair: 100 * pairs.count(pair) / users for pair in sorted(set(pairs))}


def instances_needed(work: float, limit: float, away: int) -> int:
    """The fewest instances that answer 99 of 100 requests within a limit, while so many of them are away.

    Args:
        work: how many instances the load keeps busy.
        limit: in calls of mean length.
    Raises:
        CtrlabError: no number of instances does.
    """
    load = Load(ServiceCurve(1.0, 0.0, spread=SPREAD), work, (1,), limit)
    for count in range(1, MOST_INSTANCES):
        if predicted(load, count) <= limit:
            return count + away
    raise CtrlabError(f"A limit is longer than the slowest call alone, {SPREAD[-1]} here; received {limit}.")


@dataclass(frozen=True)
class Answer:
    """Of a request. Times in seconds; `instance` and `version` are empty where none answered, and `why` says why."""

    due: float
    seconds: float
    user: str
    arm: str
    instance: str = ""
    version: int = 0
    why: str = ""


class RealFleet:
    """Two instances of `ctrlab serve`, which begin while the notebook goes on; an arm is a label of DeepFM.

    Args:
        arms: names of labels; each is version 1 at first.
    """

    _last: RealFleet | None = None

    def __init__(self, profile: Profile, arms: Sequence[str], instances: int = 2):
        if RealFleet._last:  # the cell that makes it is run again
            RealFleet._last.close()
        RealFleet._last = self
        self._held = contextlib.ExitStack()
        self._exported = Exported(NAME, profile, "all")
        self._folder, self._body = self._exported.folder, self._exported.request(ROWS)
        for arm in arms:
            set_label(self._folder, arm, 1)
        self.token = secrets.token_hex(16)
        plan = Plan({"all": self._folder}, instances=instances, token=self.token, seconds=MOST_SECONDS)
        fleet = Fleet(plan, tell=lambda line: None)
        self._pool = self._held.enter_context(ThreadPoolExecutor(CLIENTS, "ctrlab-lesson"))
        self._starts: Future[Running] = self._pool.submit(self._held.enter_context, running(fleet))
        self._instances = {instance.name: instance for instance in fleet.instances}
        atexit.register(self.close)

    @property
    def names(self) -> list[str]:
        return list(self._instances)

    def wait_until_ready(self) -> None:
        """Until each instance takes requests.

        Raises:
            CtrlabError: one can't start.
        """
        self._fleet = self._starts.result()
        self._fleet.do(self._until(lambda: all(each.state is State.READY for each in self._instances.values())))

    def _ready(self) -> list[Instance]:
        return [each for each in self._instances.values() if each.state is State.READY]

    def kill(self, name: str) -> None:
        """Ends an instance's process at once, as a machine's failure does."""
        self._fleet.kill(name)

    def release(self, arm: str) -> None:
        """Exports a new version, and gives the arm's label to it."""
        set_label(self._folder, arm, self._exported.export())

    def megabytes(self) -> dict[str, float]:
        """Memory that the process of each instance that is ready has for itself."""
        found = {}
        for each in self._ready():
            status = Path(f"/proc/{each.pid}/status").read_text()
            found[each.name] = int(re.search(r"RssAnon:\s+(\d+)", status)[1]) / 1024
        return found

    def medians(self, calls: int) -> dict[str, float]:
        """Seconds of a request to an instance, and of one that goes through the package's own front, in turns."""
        ports = {"an instance": self._ready()[0].upstream.port, "the front": self._fleet.port}
        post = client.post(f"/v1/models/{NAME}:predict", self._body, self.token)
        took: dict[str, list[float]] = {name: [] for name in ports}
        with contextlib.ExitStack() as held:
            lines = {n: held.enter_context(server.Connection(client.Target("127.0.0.1", port))) for n, port in ports.items()}
            for _ in range(calls):
                for name, line in lines.items():
                    begun = time.perf_counter()
                    line.answer(post)
                    took[name].append(time.perf_counter() - begun)
        return {name: float(np.median(each)) for name, each in took.items()}

    def run(
        self,
        deliver: Deliver,
        arm_of: Callable[[str], str],
        *,
        seconds: float,
        per_second: float,
        events: Mapping[float, Callable[[], None]],
        chart=None,
        users: int = 200,
    ) -> list[Answer]:
        """Requests of users who come by chance; each is delivered by `deliver` in a thread of its own.

        Args:
            arm_of: the label that a user's requests ask for.
            events: {second: what is done then}.
            chart: takes how many were answered by each instance so far, and how many failed.
        """
        due = arrivals.poisson(per_second, seconds)
        who = np.random.default_rng(0).integers(0, users, len(due))
        left, begun, drawn = sorted(events.items()), time.monotonic(), 0.0
        asked: list[Future[Answer]] = []
        while len(asked) < len(due) or not all(each.done() for each in asked):
            now = time.monotonic() - begun
            while left and left[0][0] <= now:
                left.pop(0)[1]()
            while len(asked) < len(due) and due[len(asked)] <= now:
                number = len(asked)
                asked.append(self._pool.submit(self._asked, deliver, arm_of, f"A{who[number]}", begun, float(due[number])))
            if chart and now - drawn >= DRAWN_SECONDS:
                self._draw(chart, now, asked)
                drawn = now
            time.sleep(0.002)
        return [each.result() for each in asked]

    def close(self) -> None:
        """Stops all instances."""
        atexit.unregister(self.close)
        RealFleet._last = None
        if not self._starts.cancel():
            with contextlib.suppress(CtrlabError):
                self._starts.result()
        self._held.close()

    def _asked(self, deliver: Deliver, arm_of: Callable[[str], str], user: str, begun: float, due: float) -> Answer:
        arm = arm_of(user)
        path = f"/v1/models/{NAME}/labels/{quote(arm)}:predict"
        try:
            name, reply = deliver(self._body, _Line(self, path, begun + due + MOST_SECONDS))
        except CtrlabError as problem:
            return Answer(due, time.monotonic() - begun - due, user, arm, why=type(problem).__name__)
        version = int(dict(reply.headers).get(b"x-model-version", 0))
        why = "" if reply.status == 200 else f"status {reply.status}"
        return Answer(due, time.monotonic() - begun - due, user, arm, name, version, why)

    def _draw(self, chart, now: float, asked: Sequence[Future[Answer]]) -> None:
        done = [each.result() for each in asked if each.done()]
        for name in self.names:
            chart.add(name, now, sum(each.instance == name for each in done))
        chart.add("failed", now, sum(bool(each.why) for each in done))

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._fleet.fleet.front.changed.wait()


class _Line:
    """The fleet, as one request sees it."""

    def __init__(self, fleet: RealFleet, path: str, ends: float):
        self._fleet, self._path, self._ends, self._states = fleet, path, ends, []

    def instances(self) -> list[Seen]:
        seen = [Seen(each.name, each.state.value, each.inside) for each in self._fleet._instances.values()]
        self._states = [each.state for each in seen]
        return seen

    def send(self, request: bytes, name: str) -> tuple[str, upstream.Reply]:
        """The name of the instance, and what it answered."""
        front, instance = self._fleet._fleet.fleet.front, self._fleet._instances[name]
        if instance.upstream is None:
            raise Refused(f"Instance {name} has no port yet.")
        headers = [(b"authorization", f"Bearer {self._fleet.token}".encode()), (b"content-type", b"application/json")]
        try:
            return name, self._fleet._fleet.do(front.ask(instance, "POST", self._path, headers, request))
        except upstream.Broken as broken:
            raise (Broken if broken.sent else Refused)(str(broken)) from None

    def wait(self) -> None:
        def changed() -> bool:
            return [each.state.value for each in self._fleet._instances.values()] != self._states

        try:
            self._fleet._fleet.do(asyncio.wait_for(self._fleet._until(changed), self._ends - time.monotonic()))
        except TimeoutError:
            raise Late("There is no more time.") from None

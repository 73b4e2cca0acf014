"""For the lesson on fleets: users who come again, real instances that are killed on purpose, and the number of instances that
a load needs.
"""

from __future__ import annotations

import atexit
import contextlib
import re
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import numpy as np
from ctrlab.lessons.topics.fleet.deliveries import Broken, Deliver, Late, Life, Refused, Seen, deliver_by_the_rules
from ctrlab.lessons.topics.fleet.servers import Instance, Servers, State

from ctrlab.errors import CtrlabError
from ctrlab.load import arrivals, client, erlang
from ctrlab.load.answers import HttpAnswer
from ctrlab.load.connection import Connection, NoAnswer
from ctrlab.profiles import Profile
from ctrlab.server.exported import Exported
from ctrlab.serving.version_labels import set_label

ArmOf = Callable[[str, str, Mapping[str, float]], str]
"""(user, experiment, percents) -> the arm."""
NAME = "deepfm"
ROWS = 16
CLIENTS = 32
MOST_SECONDS = 20.0
"""The longest wait of a request, in seconds."""
START_SECONDS = 300.0
"""Seconds within which the instances must be ready."""
DRAWN_SECONDS = 0.25
SPREAD = (0.6, 0.8, 1.0, 1.2, 1.4)
"""The relative spread of a call's time around its mean."""
MOST_INSTANCES = 64

REPLACED = ((0, "draining"), (1, "starting"), (8, "warming"), (9, "ready"))
"""An instance's states while its process is replaced, with the seconds at which they begin."""


def _later(seconds: float) -> tuple[tuple[float, str], ...]:
    return tuple((seconds + since, state) for since, state in REPLACED)


OUTAGES = {
    "i1": Life(((0, "ready"), (10, "crashed"), *_later(10)[1:], *_later(30)), dead=((10, 18),)),
    "i2": Life(((0, "ready"), *_later(40))),
}
"""A minute of two instances: the first crashes, then both are replaced, one after the other."""


def both_percent(arm_of: ArmOf, visits: int, percent: float = 50.0, users: int = 2_000) -> float:
    """The percentage of users that meet both arms in this number of visits."""
    percents = {"control": 100 - percent, "new": percent}
    arms = [{arm_of(f"A{user}", "ranking", percents) for _ in range(visits)} for user in range(users)]
    return 100 * sum(len(each) > 1 for each in arms) / users


def moved_percent(arm_of: ArmOf, before: float, after: float, users: int = 5_000) -> float:
    """The percentage of users that change their arm when the second arm's percentage is changed."""
    ways = [{"control": 100 - percent, "new": percent} for percent in (before, after)]
    moves = sum(arm_of(f"A{user}", "ranking", ways[0]) != arm_of(f"A{user}", "ranking", ways[1]) for user in range(users))
    return 100 * moves / users


def crossed(arm_of: ArmOf, one: str, other: str, users: int = 5_000) -> dict[tuple[str, str], float]:
    """{(arm in one experiment, arm in the other): percent of the users}, both split in halves."""
    halves = {"a": 50, "b": 50}
    pairs = [(arm_of(f"A{user}", one, halves), arm_of(f"A{user}", other, halves)) for user in range(users)]
    return {pair: 100 * pairs.count(pair) / users for pair in sorted(set(pairs))}


def instances_needed(work: float, limit: float, away: int) -> int:
    """The fewest instances that answer 99 of 100 requests within a limit, while this number of them is away.

    Args:
        work: number of instances that the load keeps busy.
        limit: the limit, in mean call times.
    Raises:
        CtrlabError: no number of instances is enough.
    """
    for count in range(1, MOST_INSTANCES):
        if erlang.percentile(np.array(SPREAD), work, count) <= limit:
            return count + away
    raise CtrlabError(f"A limit is longer than the slowest call alone, {SPREAD[-1]} here; received {limit}.")


@dataclass(frozen=True)
class Answer:
    """The answer to a request. Times are in seconds. Without an answer `instance` and `version` are empty, and `why` gives the
    reason.
    """

    due: float
    seconds: float
    user: str
    arm: str
    instance: str = ""
    version: int = 0
    why: str = ""


class RealFleet:
    """Two instances of `ctrlab serve`, which start while the notebook continues; an arm is a label of DeepFM.

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
        command = [sys.executable, "-m", "ctrlab", "serve", str(self._folder), "--port", "0", "--grpc-port", "0"]
        self.servers = Servers(command, instances, self.token)
        self._held.callback(self.servers.close)
        self._pool = self._held.enter_context(ThreadPoolExecutor(CLIENTS, "ctrlab-lesson"))
        atexit.register(self.close)

    @property
    def names(self) -> list[str]:
        return list(self.servers.all)

    def wait_until_ready(self) -> None:
        """Waits until each instance takes requests.

        Raises:
            CtrlabError: an instance can't start.
        """
        if not self.servers.wait_until(lambda: set(self.servers.states()) == {State.READY}, START_SECONDS):
            raise CtrlabError(f"Each instance is ready within {START_SECONDS:g} s; they are {', '.join(self.servers.states())}.")

    def _ready(self) -> list[Instance]:
        return [each for each in self.servers.all.values() if each.state is State.READY]

    def kill(self, name: str) -> None:
        """Kills an instance's process, like a failure of its machine."""
        self.servers.kill(name)

    def release(self, arm: str) -> None:
        """Exports a new version, and gives the arm's label to it."""
        set_label(self._folder, arm, self._exported.export())

    def megabytes(self) -> dict[str, float]:
        """Megabytes of unshared memory of each ready instance's process."""
        found = {}
        for each in self._ready():
            status = Path(f"/proc/{each.pid}/status").read_text()
            found[each.name] = int(re.search(r"RssAnon:\s+(\d+)", status)[1]) / 1024
        return found

    def medians(self, calls: int) -> dict[str, float]:
        """Seconds of a request to an instance, and of one that goes through a front, in turns."""
        post = client.post(f"/v1/models/{NAME}:predict", self._body, self.token)
        with contextlib.ExitStack() as held:
            ports = {"an instance": self._ready()[0].port, "the front": held.enter_context(_front(self))}
            took: dict[str, list[float]] = {name: [] for name in ports}
            lines = {n: held.enter_context(Connection(client.Target("127.0.0.1", port))) for n, port in ports.items()}
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
        """Sends requests of users who come at random; `deliver` delivers each in a separate thread.

        Args:
            arm_of: gives the label that a user's requests ask for.
            events: {second: function that is called then}.
            chart: gets the number of requests that each instance has answered so far, and the number that failed.
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
        self._held.close()

    def _asked(self, deliver: Deliver, arm_of: Callable[[str], str], user: str, begun: float, due: float) -> Answer:
        arm = arm_of(user)
        path = f"/v1/models/{NAME}/labels/{quote(arm)}:predict"
        try:
            name, reply = deliver(self._body, _Line(self.servers, path, begun + due + MOST_SECONDS))
        except CtrlabError as problem:
            return Answer(due, time.monotonic() - begun - due, user, arm, why=type(problem).__name__)
        version = int(reply.headers.get(b"x-model-version", 0))
        why = "" if reply.status == 200 else f"status {reply.status}"
        return Answer(due, time.monotonic() - begun - due, user, arm, name, version, why)

    def _draw(self, chart, now: float, asked: Sequence[Future[Answer]]) -> None:
        done = [each.result() for each in asked if each.done()]
        for name in self.names:
            chart.add(name, now, sum(each.instance == name for each in done))
        chart.add("failed", now, sum(bool(each.why) for each in done))


class _Line:
    """The servers as seen by one request."""

    def __init__(self, servers: Servers, path: str, ends: float):
        self._servers, self._path, self._ends = servers, path, ends
        self._states: list[State] = []

    def instances(self) -> list[Seen]:
        seen = [Seen(each.name, each.state.value, each.inside) for each in self._servers.all.values()]
        self._states = [State(each.state) for each in seen]
        return seen

    def send(self, request: bytes, name: str) -> tuple[str, HttpAnswer]:
        """The name of the instance, and its answer."""
        try:
            return name, self._servers.send(name, self._path, request)
        except NoAnswer as problem:
            raise (Broken if problem.sent else Refused)(str(problem)) from None

    def wait(self) -> None:
        if not self._servers.wait_until(lambda: self._servers.states() != self._states, self._ends - time.monotonic()):
            raise Late("There is no more time.")


@contextlib.contextmanager
def _front(fleet: RealFleet) -> Iterator[int]:
    """A context with the port of a front that forwards each request by the rules of exercise 2."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version, wbufsize = "HTTP/1.1", -1  # an answer's head and body leave together

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            _, answer = deliver_by_the_rules(body, _Line(fleet.servers, self.path, time.monotonic() + MOST_SECONDS))
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as front:
        front.daemon_threads = True
        thread = threading.Thread(target=front.serve_forever, daemon=True)
        thread.start()
        yield front.server_port
        front.shutdown()
        thread.join()

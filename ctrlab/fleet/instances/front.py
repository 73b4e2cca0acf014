"""The server that clients ask: an ASGI application that forwards requests to instances.

    POST, GET /v1/models/..., /v2/models/...     an instance's answer, with its name in X-Instance and its arm in X-Arm
    GET /fleet                                   the instances: state, requests inside, process, starts, last end
    GET /metrics, /v2/health/live, /v2/health/ready

With several arms a request has its user's id in the header X-User-Id, and goes to the user's arm. A request whose instance ends
before its answer is whole is sent once more, to another instance: a prediction changes nothing, so that does no harm. It is not
sent a third time, because a request may be what ends instances. A try does not count if the process ended before it had read the
request; this exception is made once per request. If no instance takes requests, the request waits.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote

from ctrlab.errors import CtrlabError
from ctrlab.fleet.instances.instance import Changed, Choose, Instance, State, least_inside
from ctrlab.fleet.instances.metrics import Metrics
from ctrlab.fleet.instances.upstream import Broken, Reply
from ctrlab.server.application import LONGEST_ID, REQUEST_ID, Answer, Application, Headers, Wrong, of_json

USER = b"x-user-id"
TRIES = 2
"""The largest number of times that a request is sent."""
AGAIN_SECONDS = 0.05
"""Seconds after which the front asks the system again for a resource that was refused, such as a connection."""
HANDED_ON = {b"authorization", b"accept", b"content-type", b"inference-header-content-length"}
NOT_HANDED_BACK = {b"connection", b"content-length", b"date", b"keep-alive", b"server", b"transfer-encoding"}
PATH = r"(?P<path>/v[12]/models/.+)"


class Failed(CtrlabError):
    """A request that no instance answered, with the HTTP status for it."""

    def __init__(self, status: int, sentence: str):
        super().__init__(sentence)
        self.status = status


class Front(Application):
    """The application.

    Args:
        instances: the instances of all arms.
        arm_of: the arm of a user; None: there is one arm.
        changed: wakes the front when an instance has changed its state.
        doubt: called with an instance to which a connection broke.
        choose: selects the instance of an arm for a request.
        seconds: time within which a request is answered, including its second try.
    """

    once = frozenset({USER})
    serves = "/v1/models/..., /v2/models/..., /v2/health/..., /fleet and /metrics"

    def __init__(
        self,
        instances: Sequence[Instance],
        token: str,
        changed: Changed,
        doubt: Callable[[Instance], None],
        *,
        arm_of: Callable[[bytes], str] | None = None,
        choose: Choose = least_inside,
        seconds: float = 30.0,
    ):
        self.metrics = Metrics(instances)
        super().__init__(token, lambda _, why, sentence: self.metrics.refuse(why))
        self._arms: Mapping[str, list[Instance]] = {i.arm: [j for j in instances if j.arm == i.arm] for i in instances}
        self._instances, self.changed, self._doubt = instances, changed, doubt
        self._arm_of, self._choose, self._seconds = arm_of, choose, seconds
        self.came, self._sent = 0.0, 0
        self.routes += [
            ("POST", re.compile(PATH), self._post),
            ("GET", re.compile(PATH), self._get),
            ("GET", re.compile(r"/fleet"), self._fleet),
            ("GET", re.compile(r"/metrics"), self._metrics),
        ]

    def status_of(self, problem: Exception) -> int | None:
        return problem.status if isinstance(problem, Failed) else None

    async def _health(self, *_) -> Answer:
        there = all(any(each.state is State.READY for each in arm) for arm in self._arms.values())
        return Answer(b"", 200 if self.ready and there else 503)

    async def _fleet(self, *_) -> Answer:
        return of_json({"instances": [instance.told() for instance in self._instances]})

    async def _metrics(self, *_) -> Answer:
        return Answer(self.metrics.page(), headers=((b"content-type", b"text/plain; version=0.0.4; charset=utf-8"),))

    async def _post(self, found, headers: Headers, receive) -> Answer:
        return await self._counted("POST", found["path"], headers, await self.body(headers, receive))

    async def _get(self, found, headers: Headers, receive) -> Answer:
        return await self._counted("GET", found["path"], headers, b"")

    def _arm(self, method: str, headers: Headers) -> str:
        if not self._arm_of:
            return next(iter(self._arms))
        if user := headers.get(USER, b"").strip():
            return self._arm_of(user)
        if method == "GET":  # what the models take: the first arm says it for all
            return next(iter(self._arms))
        raise Wrong(400, "A request to an A/B test has its user's id, in the header X-User-Id; received none.")

    async def _counted(self, method: str, path: str, headers: Headers, body: bytes) -> Answer:
        came = self.came = time.monotonic()
        arm = self._arm(method, headers)
        id = headers.get(REQUEST_ID, b"")[:LONGEST_ID].strip() or secrets.token_hex(16).encode()  # of both tries
        given = [(name, value) for name, value in headers.items() if name in HANDED_ON]
        try:
            async with asyncio.timeout(self._seconds):
                instance, reply = await self._answered(arm, method, quote(path, safe="/:"), [*given, (REQUEST_ID, id)], body)
        except TimeoutError:
            self.metrics.failed(arm, "late")
            raise Failed(504, f"A request is answered within {self._seconds:g} s; this one was not.") from None
        except Broken as broken:
            self.metrics.failed(arm, "broken")
            raise Failed(502, f"A request is sent {TRIES} times at most; this one ended without an answer. {broken}") from None
        except asyncio.CancelledError:
            self.metrics.failed(arm, "stopped")
            raise
        self.metrics.answered(arm, instance.name, reply.status, time.monotonic() - came)
        back = [(name, value) for name, value in reply.headers if name not in NOT_HANDED_BACK]
        says = [(b"x-arm", arm.encode()), (b"x-instance", instance.name.encode())]
        return Answer(reply.body, reply.status, (*back, *says))

    async def _answered(self, arm: str, method: str, path: str, headers, body: bytes) -> tuple[Instance, Reply]:
        """The answer of the instance to which the request was sent first, or of the second one."""
        tried: list[str] = []
        unread = False
        while True:
            instance = await self._free(arm, tried)
            try:
                reply = await self.ask(instance, method, path, headers, body)
            except Broken as broken:
                if broken.ours:
                    await asyncio.sleep(AGAIN_SECONDS)
                    continue
                if not broken.sent:  # nobody has seen it
                    continue
                if broken.unread and not unread:
                    unread = True
                    self.metrics.again(arm, instance.name, "unread")
                    continue
                if len(tried) + 1 == TRIES:
                    raise
                self.metrics.again(arm, instance.name, "broken")
            else:
                if reply.status != 503 or len(tried) + 1 == TRIES:
                    return instance, reply
                self.metrics.again(arm, instance.name, "unavailable")
            tried.append(instance.name)

    async def _free(self, arm: str, tried: Sequence[str]) -> Instance:
        """The instance for the request; waits until one takes requests."""
        while (instance := self._choose(self._arms[arm], tried)) is None:
            await self.changed.wait()
        return instance

    async def ask(self, instance: Instance, method: str, path: str, headers, body: bytes) -> Reply:
        """The answer of one instance.

        Raises:
            Broken: there is no answer; the instance is then asked whether it is alive.
        """
        upstream = instance.upstream
        self._sent += 1
        instance.inside, instance.last = instance.inside + 1, self._sent
        try:
            return await upstream.ask(method, path, headers, body)
        except Broken as broken:
            if instance.upstream is upstream and not broken.ours:  # else it is another process already
                self._doubt(instance)
            raise
        finally:
            instance.inside -= 1
            if instance.state is State.DRAINING and not instance.inside:
                self.changed.tell()

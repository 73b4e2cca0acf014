"""Runs a fleet from its first process to its last: in a command, until a signal, or in a thread.

with running(Fleet(Plan({"all": Path("models")}, token="a-token"))) as fleet:
    client.send([Target("127.0.0.1", fleet.port)], ...)
    fleet.kill("all-1")
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ctrlab.fleet.instances.front import Front
from ctrlab.fleet.instances.instance import Changed, Choose, Instance, least_inside
from ctrlab.fleet.instances.plan import Plan
from ctrlab.fleet.instances.process import Process
from ctrlab.fleet.instances.supervisor import Supervisor
from ctrlab.server.listening import Http, drained, own_address, quiet
from ctrlab.server.logs import to_stderr


class Fleet:
    """A front and its instances, in one event loop.

    Args:
        choose: selects the instance of an arm for a request.
        arm_of: gives the arm of a user; None: by the plan's percents and its experiment.
        tell: called with the lines that instances write to their logs.
    """

    def __init__(
        self,
        plan: Plan,
        choose: Choose = least_inside,
        arm_of: Callable[[bytes], str] | None = None,
        tell: Callable[[str], None] = to_stderr,
    ):
        self.plan, self.instances, self._tell = plan, plan.made(), tell
        self.http: Http | None = None
        split = plan.split()
        changed = Changed()
        self.supervisor = Supervisor(self.instances, self._begin, plan.token, changed, plan.patience)
        arms = arm_of or (split.arm if split else None)
        told = {"arm_of": arms, "choose": choose, "seconds": plan.seconds}
        self.front = Front(self.instances, plan.token, changed, self.supervisor.doubt, **told)

    async def start(self, host: str, port: int) -> int:
        """Listens, and starts all instances. Returns the port, once each has been ready.

        Raises:
            CtrlabError: the port is taken, or an instance can't start.
        """
        self.http = await Http.on(self.front, own_address(host), port)
        await self.supervisor.start()
        return self.http.port

    async def leave(self) -> None:
        """Reports that the fleet is not ready, and continues to serve until its callers have had time to see that."""
        self.front.ready = False
        await quiet(lambda: self.front.came, time.monotonic() + self.plan.patience.drain)

    async def stop(self) -> int:
        """Answers the requests inside, and ends all instances. Returns the number of requests that were cut off."""
        ends = time.monotonic() + self.plan.patience.drain
        self.front.ready = False
        if not self.http:
            await self.supervisor.stop()
            return 0
        await self.http.refuse_more()
        cut = await drained(lambda: self.http.inside, ends)
        await self.supervisor.stop()
        return cut + await self.http.end()

    async def _begin(self, instance: Instance) -> Process:
        command, environment = self.plan.command(instance), self.plan.environment()
        return await Process.start(instance.name, command, instance.cpus, environment, self._tell)


def serve(plan: Plan, host: str, port: int, on_ready: Callable[[int], None]) -> int:
    """Runs a fleet until SIGTERM or SIGINT; SIGHUP replaces its processes one after the other. Returns the number of requests
    that were cut off at the end.

    Raises:
        CtrlabError: the port is taken, the host is not an address of this machine, or an instance can't start.
    """
    return asyncio.run(_serve(plan, host, port, on_ready))


async def _serve(plan: Plan, host: str, port: int, on_ready: Callable[[int], None]) -> int:
    stops, replaces, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()
    for number, event in ((signal.SIGTERM, stops), (signal.SIGINT, stops), (signal.SIGHUP, replaces)):
        loop.add_signal_handler(number, event.set)
    fleet, tasks = Fleet(plan), []

    async def replace() -> None:
        """Replaces the processes. Signals that come during a replacement cause one more."""
        while await replaces.wait():
            replaces.clear()
            await fleet.supervisor.replace()

    starts, told = asyncio.create_task(fleet.start(host, port)), asyncio.create_task(stops.wait())
    try:
        await asyncio.wait({starts, told}, return_when=asyncio.FIRST_COMPLETED)
        if not stops.is_set():
            made = starts.result()
            replaces.clear()  # all processes are new
            tasks.append(asyncio.create_task(replace()))
            on_ready(made)
            await stops.wait()
            await fleet.leave()
    finally:
        for task in (starts, told, *tasks):
            task.cancel()
        cut = await fleet.stop()
    return cut


class Running:
    """A fleet that runs in a thread."""

    def __init__(self, fleet: Fleet, loop: asyncio.AbstractEventLoop, port: int):
        self.fleet, self._loop, self.port = fleet, loop, port

    def told(self) -> dict[str, dict]:
        """{instance: its current state}."""
        return {instance.name: instance.told() for instance in self.fleet.instances}

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Sends a signal to an instance's process."""
        os.kill(self.told()[name]["pid"], number)

    def replace(self) -> None:
        """Replaces all processes, one after the other."""
        self.do(self.fleet.supervisor.replace())

    def do(self, coroutine) -> Any:
        """Runs a coroutine in the fleet's event loop, and returns its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


@contextlib.contextmanager
def running(fleet: Fleet) -> Iterator[Running]:
    """A context in which a fleet runs in a thread, on any free port.

    Raises:
        CtrlabError: an instance can't start.
    """
    found: dict[str, Running] = {}
    started, ends = threading.Event(), threading.Event()
    problem: list[BaseException] = []

    async def whole() -> None:
        try:
            port = await fleet.start("127.0.0.1", 0)
            found["running"] = Running(fleet, asyncio.get_running_loop(), port)
            started.set()
            await asyncio.to_thread(ends.wait)
        finally:
            await fleet.stop()

    def run() -> None:
        try:
            asyncio.run(whole())
        except BaseException as raised:
            problem.append(raised)
        started.set()

    thread = threading.Thread(target=run, name="ctrlab-fleet", daemon=True)  # its end ends the instances
    thread.start()
    try:
        started.wait()
        if problem:
            raise problem[0]
        yield found["running"]
    finally:
        ends.set()
        thread.join()
    if problem:
        raise problem[0]

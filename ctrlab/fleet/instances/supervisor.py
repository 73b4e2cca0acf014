"""The life cycle of a fleet's instances: each is started, warmed, watched, drained and stopped, and started again after a crash.
A process that ends is noticed at once. A process that has not reported for a while that it is alive (`Patience.answer`) is
considered hanging, and is killed. Repeated starts get further and further apart, so that an instance that can't start does not
overload the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass

from ctrlab.errors import CtrlabError
from ctrlab.fleet.instances.instance import Changed, Instance, State
from ctrlab.fleet.instances.process import Ended, Process
from ctrlab.fleet.instances.upstream import Broken, Upstream
from ctrlab.fleet.instances.warm import NoAccess, warm_up

HEALTH = "/v2/health/ready"
CHECK_SECONDS = 1.0
"""Seconds between two questions whether an instance is alive. It is asked at once if a connection to it broke."""
QUESTIONS = 5
"""Number of questions without an answer after which an instance is killed. After the first one it gets no more requests."""
STOP_SECONDS = 30.0
"""Seconds within which a drained process must end after SIGTERM."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Patience:
    """Time limits of an instance's life, in seconds.

    Attributes:
        start: until an instance must be warm.
        answer: until an instance that does not report that it is alive is killed.
        drain: until the requests inside must be answered.
        backoff, most_backoff: wait before the first start after a crash, and the longest wait; each wait doubles the one before.
    """

    start: float = 300.0
    answer: float = 10.0
    drain: float = 300.0
    backoff: float = 0.25
    most_backoff: float = 30.0


class Supervisor:
    """Starts, watches, replaces and stops the instances of a fleet, in one event loop.

    Args:
        begin: starts the process of an instance.
        token: the token that instances take; "": none.
        changed: notified whenever an instance changes its state.
    """

    def __init__(
        self,
        instances: Sequence[Instance],
        begin: Callable[[Instance], Awaitable[Process]],
        token: str,
        changed: Changed,
        patience: Patience = Patience(),
    ):
        self.instances, self._begin, self._token, self._changed, self.patience = instances, begin, token, changed, patience
        self._tasks: dict[str, asyncio.Task] = {}
        self._replacing = asyncio.Lock()
        self._stops = False

    async def start(self) -> None:
        """Starts all instances, and waits until each has been ready.

        Raises:
            CtrlabError: an instance can't start, is not warm in time, or takes another token.
        """
        first = [asyncio.get_running_loop().create_future() for _ in self.instances]
        self._tasks = {i.name: asyncio.create_task(self._keep(i, begun)) for i, begun in zip(self.instances, first)}
        await asyncio.gather(*first)

    async def replace(self) -> None:
        """Replaces the processes of all instances one after the other: the next one when all others take requests."""
        async with self._replacing:
            for instance in self.instances:
                await self._until(lambda: all(other.state is State.READY for other in self.instances))
                starts = instance.starts
                instance.leave.set()
                await self._until(lambda i=instance, n=starts: i.starts > n and i.state is State.READY)

    async def stop(self) -> None:
        """Drains and ends all instances."""
        self._stops = True
        for instance in self.instances:
            instance.leave.set()
            if instance.state not in (State.READY, State.SUSPECT, State.DRAINING) and (task := self._tasks.get(instance.name)):
                task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def doubt(self, instance: Instance) -> None:
        """Called when a connection to an instance broke: it gets no requests until it has reported that it is alive."""
        if instance.state is State.READY:
            self._become(instance, State.SUSPECT)
            instance.doubted.set()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._changed.wait()

    def _become(self, instance: Instance, state: State) -> None:
        if instance.state is not state:
            instance.state, instance.since = state, time.time()
            log.info("Instance %s is %s", instance.name, state.value, extra={"instance": instance.name, "state": state.value})
            self._changed.tell()

    async def _keep(self, instance: Instance, begun: asyncio.Future) -> None:
        """Runs one process of an instance after the other, until the fleet stops."""
        failures = 0
        try:
            while not self._stops:
                instance.leave.clear()
                started = time.monotonic()
                problem = await self._life(instance, begun)
                if problem is None:
                    continue
                instance.why = str(problem)
                self._become(instance, State.CRASHED)
                if not begun.done() and not (isinstance(problem, Ended) and not problem.by_itself):
                    begun.set_exception(CtrlabError(f"A fleet begins once each instance is ready. {problem}"))
                    return
                if time.monotonic() - started > 2 * self.patience.most_backoff:
                    failures = 0
                wait = min(self.patience.backoff * 2**failures, self.patience.most_backoff)
                failures += 1
                log.warning("%s It is started again in %g s", problem, wait, extra={"instance": instance.name})
                await asyncio.sleep(wait)
        finally:
            begun.cancel()
            self._become(instance, State.STOPPED)

    async def _life(self, instance: Instance, begun: asyncio.Future) -> CtrlabError | None:
        """Runs a process from its start to its end. Returns the reason for the end; None if it was drained."""
        process = None
        try:
            self._become(instance, State.STARTING)
            process = await self._begin(instance)
            instance.pid, instance.starts = process.pid, instance.starts + 1
            async with asyncio.timeout(self.patience.start):
                instance.upstream = Upstream("127.0.0.1", await process.port())
                self._become(instance, State.WARMING)
                await warm_up(instance.upstream, self._token)
            self._become(instance, State.READY)
            if not begun.done():
                begun.set_result(None)
            return await self._watch(instance, process)
        except TimeoutError:
            seconds = self.patience.start
            return CtrlabError(f"Instance {instance.name} has not answered a request of each model after {seconds:g} s.")
        except Broken as problem:  # while it was warmed
            with contextlib.suppress(TimeoutError):
                return await asyncio.wait_for(process.end(), CHECK_SECONDS)
            return problem
        except (ValueError, KeyError, TypeError) as problem:
            return CtrlabError(f"Instance {instance.name} does not answer as `ctrlab serve` does: {problem}.")
        except (Ended, NoAccess) as problem:
            return problem
        except OSError as problem:
            return CtrlabError(f"No process can be had for instance {instance.name}: {problem.strerror or problem}.")
        finally:
            if process:
                await _whole(process.stop(STOP_SECONDS))
            if instance.upstream:
                instance.upstream.close()

    async def _watch(self, instance: Instance, process: Process) -> CtrlabError | None:
        gone = asyncio.create_task(process.end())
        leaves = asyncio.create_task(instance.leave.wait())
        hangs = asyncio.create_task(self._ask(instance))
        try:
            await asyncio.wait({gone, leaves, hangs}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                self._become(instance, State.CRASHED)
                return gone.result()
            if leaves.done():
                await self._drain(instance, gone, hangs)
                if hangs.done() and not gone.done():
                    log.warning("Instance %s hangs while it is drained, and is killed", instance.name)
                    await process.stop(0.0)
                return None
            self._become(instance, State.CRASHED)
            await process.stop(0.0)
            seconds = self.patience.answer
            return CtrlabError(f"Instance {instance.name} has not said for {seconds:g} s that it is there, and was killed.")
        finally:
            for task in (gone, leaves, hangs):
                task.cancel()
            await asyncio.gather(gone, leaves, hangs, return_exceptions=True)

    async def _drain(self, instance: Instance, gone: asyncio.Task, hangs: asyncio.Task) -> None:
        """Waits until no request is inside, the process has ended or hangs, or the time is over."""
        self._become(instance, State.DRAINING)
        ends = time.monotonic() + self.patience.drain
        while instance.inside and not gone.done() and not hangs.done() and time.monotonic() < ends:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), CHECK_SECONDS)

    async def _ask(self, instance: Instance) -> None:
        """Asks an instance repeatedly whether it is alive; ends when it has not answered for too long. The number of questions
        counts, not time alone, because the fleet itself may have been stopped meanwhile.
        """
        heard, unanswered = time.monotonic(), 0
        while time.monotonic() - heard < self.patience.answer or unanswered < QUESTIONS:
            if not unanswered:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(instance.doubted.wait(), CHECK_SECONDS)
            instance.doubted.clear()
            try:
                async with asyncio.timeout(self.patience.answer / QUESTIONS):
                    ready = (await instance.upstream.ask("GET", HEALTH)).status == 200
            except (Broken, TimeoutError) as problem:
                if not (isinstance(problem, Broken) and problem.ours):
                    unanswered += 1
                    self.doubt(instance)
                await asyncio.sleep(CHECK_SECONDS / 10)
                continue
            heard, unanswered = time.monotonic(), 0
            if instance.state is not State.DRAINING or not instance.leave.is_set():
                self._become(instance, State.READY if ready else State.DRAINING)


async def _whole(coroutine: Coroutine) -> None:
    """Awaits a coroutine to its end, even if the task is cancelled meanwhile, so that no process is left."""
    task = asyncio.create_task(coroutine)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise

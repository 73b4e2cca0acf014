"""Runs threads one at a time, in an order that a check chooses. So an error that occurs in one order of a thousand occurs every
time. A thread runs until its next point: it takes or leaves a `Condition`, waits for one, or calls `pause`.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from collections.abc import Callable

from ctrlab.lessons.check import OURS

PATIENCE = 5.0
"""Seconds after which a running thread that has reached no point counts as waiting in another way."""

LOOKS = 100
"""How often a thread may take a condition, without a wait or a pause in between, before it counts as waiting in a loop."""

NEVER_ENDED = (OURS, sysconfig.get_path("stdlib") + os.sep, "<frozen")
"""Folders of modules whose functions are never interrupted. An interrupted semaphore would release a lock that another thread
holds.
"""


class Stuck(Exception):
    """A thread reached no point, or the same points again and again."""


class _Ended(BaseException):
    """Raised in a thread to unwind it when its check is over."""


class _Thread(threading.Thread):
    def __init__(self, name: str, function: Callable[[], None]):
        super().__init__(name=name, daemon=True)
        self.function = function
        self.goes, self.is_back = threading.Semaphore(0), threading.Semaphore(0)
        self.can_go: Callable[[], bool] = lambda: True
        self.paused = self.done = self.ends = False
        self.looks = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        self.goes.acquire()
        try:
            if not self.ends:
                sys.settrace(self._ends_what_spins)
                self.function()
        except _Ended:
            pass
        except BaseException as error:
            self.error = error
        self.done = True
        self.is_back.release()

    def _ends_what_spins(self, frame, event, _):
        """A trace function for the answer's functions that ends endless loops. PyThreadState_SetAsyncExc would do so too. But
        if the thread waits for a lock forever, the exception stays pending; then each function that is traced later, in any
        thread, hangs in CPython 3.11.
        """
        if frame.f_code.co_filename.startswith(NEVER_ENDED):
            return None
        if self.ends and event == "line":
            raise _Ended
        return self._ends_what_spins

    def point(self, can_go: Callable[[], bool] = lambda: True, paused: bool = False) -> None:
        """Called in the thread itself: gives control to the check until the check lets the thread run again."""
        if self.ends:
            raise _Ended
        if paused:
            self.looks = 0
        self.can_go, self.paused = can_go, paused
        self.is_back.release()
        self.goes.acquire()
        self.paused = False
        if self.ends:
            raise _Ended


class Threads:
    """The threads of a check. Use it as a context manager: at its end, threads that still wait are unwound."""

    def __init__(self):
        self._threads: dict[str, _Thread] = {}
        self._running: _Thread | None = None
        self.order: list[str] = []
        """The names of the threads that ran, from point to point."""

    def start(self, name: str, function: Callable[[], None]) -> None:
        self._threads[name] = _Thread(name, function)
        self._threads[name].start()

    def can_go(self) -> list[str]:
        """The threads that neither wait nor have ended."""
        return [name for name, thread in self._threads.items() if not thread.done and thread.can_go()]

    def unfinished(self) -> list[str]:
        return [name for name, thread in self._threads.items() if not thread.done]

    def go(self, name: str) -> None:
        """Lets a thread run to its next point; passes on its exception.

        Raises:
            Stuck: it reaches no point, or has taken a condition `LOOKS` times.
        """
        thread = self._running = self._threads[name]
        self.order.append(name)
        thread.goes.release()
        if not thread.is_back.acquire(timeout=PATIENCE):
            thread.ends = True
            raise Stuck(name)
        self._running = None
        if thread.error:
            error, thread.error = thread.error, None
            raise error

    def go_on(self, name: str) -> str:
        """Lets a thread run until it is at a `pause` ("inside"), must wait ("waits"), or has ended ("done"); returns which."""
        thread = self._threads[name]
        while name in self.can_go():
            self.go(name)
            if thread.paused:
                return "inside"
        return "done" if thread.done else "waits"

    def pause(self) -> None:
        """Makes a point of the calling thread."""
        self._current().point(paused=True)

    def condition(self) -> Condition:
        return Condition(self._current)

    def _current(self) -> _Thread:
        if self._running is not threading.current_thread():
            raise RuntimeError("a thread took a condition that was made for others")
        return self._running

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *_) -> None:
        for thread in self._threads.values():
            thread.ends = True
            thread.goes.release()


class Condition:
    """Stands in for a `threading.Condition`, and behaves like it; without time limits."""

    def __init__(self, current: Callable[[], _Thread]):
        self._current = current
        self._owner: _Thread | None = None
        self._depth = 0
        self._waiting: list[_Thread] = []

    def acquire(self) -> bool:
        me = self._current()
        me.looks += 1
        if me.looks > LOOKS:
            raise Stuck(me.name)
        if self._owner is not me:
            me.point(lambda: self._owner is None)
            self._owner = me
        self._depth += 1
        return True

    def release(self) -> None:
        me = self._mine("release")
        self._depth -= 1
        if not self._depth:
            self._owner = None
            me.point()

    def wait(self, timeout: float | None = None) -> bool:
        me = self._mine("wait")
        if timeout is not None:
            raise RuntimeError("a wait that ends after a time is no wait for what must come first: leave the timeout out")
        depth, self._depth, self._owner = self._depth, 0, None
        self._waiting.append(me)
        me.looks = 0
        me.point(lambda: me not in self._waiting and self._owner is None)
        self._owner, self._depth = me, depth
        return True

    def wait_for(self, predicate: Callable[[], object], timeout: float | None = None):
        while not (found := predicate()):
            self.wait(timeout)
        return found

    def notify(self, n: int = 1) -> None:
        self._mine("notify")
        del self._waiting[:n]

    def notify_all(self) -> None:
        self.notify(len(self._waiting))

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_) -> None:
        if self._owner is self._current():  # it is not where the check is over
            self.release()

    def is_held(self) -> bool:
        """Whether the running thread holds the condition."""
        return self._owner is not None and self._owner is self._current()

    def _mine(self, what: str) -> _Thread:
        me = self._current()
        if self._owner is not me:
            raise RuntimeError(f"cannot {what} a condition that is not held: write `with self.condition:` around it")
        return me

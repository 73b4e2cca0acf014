"""A clock that wakes an event loop on time, with Linux's timerfd. The loop's own timers use epoll, which counts whole
milliseconds. They are late by half a millisecond on average, longer than a small model takes to answer.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable

_MONOTONIC, _ABSOLUTE = 1, 1


class _Timer(ctypes.Structure):
    """struct itimerspec: the interval (zero: no repetition), then the time of the first ring."""

    _fields_ = tuple((name, ctypes.c_long) for name in ("every_s", "every_ns", "at_s", "at_ns"))


class Alarm:
    """Calls `ring` in the loop at the time that was set last, by `time.monotonic`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]):
        self._loop, self._ring = loop, ring
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file = self._libc.timerfd_create(_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "no timer can be had")
        loop.add_reader(self._file, self._read)

    def set(self, at: float) -> None:
        """Sets the time of the next ring. A time in the past rings at once."""
        nanos = max(1, round(at * 1e9))
        timer = _Timer(0, 0, nanos // 10**9, nanos % 10**9)
        if self._libc.timerfd_settime(self._file, _ABSOLUTE, ctypes.byref(timer), None):
            raise OSError(ctypes.get_errno(), "a timer can't be set")

    def close(self) -> None:
        self._loop.remove_reader(self._file)
        os.close(self._file)

    def _read(self) -> None:
        try:
            os.read(self._file, 8)
        except BlockingIOError:  # it was set anew meanwhile
            return
        self._ring()

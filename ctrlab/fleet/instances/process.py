"""The process of an instance: its port, its output, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from ctrlab.errors import CtrlabError
from ctrlab.server.logs import to_stderr

LAUNCH = Path(__file__).with_name("launch.py")
LISTENS = re.compile(rb"HTTP on http://127\.0\.0\.1:([0-9]+)")
COLOURS = re.compile(rb"\x1b\[[0-9;]*m")
"""Escape sequences of colours. FORCE_COLOR, which notebooks set, makes a process write them to any output."""
LONGEST_LINE = 1 << 20
LAST_WORDS = 500
FRAME = " \r\n\t─│╭╮╰╯"
"""Characters of the frame around the message about a wrong option."""
log = logging.getLogger(__name__)


class Ended(CtrlabError):
    """A process ended; `by_itself` says that no signal ended it."""

    def __init__(self, sentence: str, by_itself: bool):
        super().__init__(sentence)
        self.by_itself = by_itself


class Process:
    """A running process; make it with `start`. Lines of JSON that it writes are passed on with its name; other lines only
    serve as last words.
    """

    def __init__(self, name: str, process: asyncio.subprocess.Process, tell: Callable[[str], None]):
        self.name, self._process, self._tell = name, process, tell
        self._port = asyncio.get_running_loop().create_future()
        self._last = ""
        self._hears = asyncio.create_task(self._hear())
        self._gone = asyncio.create_task(process.wait())

    @classmethod
    async def start(
        cls,
        name: str,
        command: Sequence[str],
        cpus: Collection[int],
        environment: Mapping[str, str],
        tell: Callable[[str], None] = to_stderr,
    ) -> Process:
        """Starts a command on these CPUs, or on all if the set is empty. `tell` takes its lines of JSON.

        Raises:
            OSError: the system refuses another process.
        """
        launch = [sys.executable, "-I", str(LAUNCH), str(os.getpid()), ",".join(map(str, sorted(cpus)))]
        pipe = asyncio.subprocess.PIPE
        streams = {"stdin": asyncio.subprocess.DEVNULL, "stdout": pipe, "stderr": asyncio.subprocess.STDOUT}
        more = {"env": dict(environment), "limit": LONGEST_LINE, "start_new_session": True}  # Ctrl-C reaches the fleet alone
        return cls(name, await asyncio.create_subprocess_exec(*launch, *command, **streams, **more), tell)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def port(self) -> int:
        """The port on which the process listens, once it has reported it.

        Raises:
            Ended: the process ended before that.
        """
        await asyncio.wait({self._port, self._gone}, return_when=asyncio.FIRST_COMPLETED)
        if not self._port.done():
            raise await self.end()
        return self._port.result()

    async def end(self) -> Ended:
        """Waits for the end of the process, and says how it ended."""
        code = await asyncio.shield(self._gone)
        await asyncio.wait({self._hears}, timeout=1.0)
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        words = f": {self._last}" if self._last and code >= 0 else "."
        return Ended(f"The process of instance {self.name} {how}{words}", by_itself=code >= 0)

    async def stop(self, seconds: float) -> None:
        """Ends the process: sends SIGTERM, and kills it if it still runs after these seconds."""
        for number, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, None)):
            if not self._gone.done():
                self._process.send_signal(number)
                await asyncio.wait({self._gone}, timeout=patience)
        await asyncio.wait({self._hears}, timeout=1.0)
        self._hears.cancel()

    async def _hear(self) -> None:
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:  # longer than the longest
                continue
            if not line:
                return
            line = COLOURS.sub(b"", line)
            if (found := LISTENS.search(line)) and not self._port.done():
                self._port.set_result(int(found[1]))
            if line.startswith(b"{"):
                with contextlib.suppress(Exception):  # an instance whose pipe nobody reads stands still: read on
                    self._tell(_named(line, self.name))
            elif text := line.decode(errors="replace").strip(FRAME):
                self._last = text[-LAST_WORDS:]


def _named(line: bytes, name: str) -> str:
    """A line of JSON, with the instance's name added."""
    try:
        return json.dumps(json.loads(line) | {"instance": name})
    except ValueError:
        return line.decode(errors="replace").strip()

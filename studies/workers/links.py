"""Hosts with slow links on one machine, made of Linux's network namespaces, so that the cost of a network can be measured without
one.

    host 0 --- veth ---+
    host 1 --- veth ---+  a bridge, in a namespace of its own
    host 2 --- veth ---+

Each end of a link sends through a token bucket (`tc`'s tbf), so a host sends and receives at its rate at the same time. A delay
can't be set, because Linux's netem is often missing.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ctrlab.distributed import require
from ctrlab.errors import CtrlabError

NETWORK = "10.77.0"
MOST_HOSTS = 254
"""Number of usable addresses of this network, without the network's own and the broadcast address."""
LEAST_RATE, MOST_RATE = 1e-3, 1e5
"""The limits of a rate, in megabits per second. Beyond them tc can't represent the duration of a burst."""
BURST = 32 << 10
"""Bytes that a link sends at once after a pause: 2.6 ms at 100 Mbit/s."""
QUEUE = 16 << 20
"""The most bytes that wait before a link. Bytes beyond would be lost and sent again, as with a switch that is too small."""


@dataclass(frozen=True)
class Sent:
    """The bytes and packets that a host has sent so far."""

    bytes: int
    packets: int

    def __sub__(self, before: Sent) -> Sent:
        return Sent(self.bytes - before.bytes, self.packets - before.packets)


class Namespace:
    """A separate network, which ends with this process. A child process that waits for this one's end keeps the network alive."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._holder.stdin.write(b"\n")
        self._holder.stdin.flush()
        if self._holder.stdout.readline() != b"\n":  # cat runs, so the network is there
            raise CtrlabError(_NEEDS.format("unshare --net was refused"))

    @property
    def pid(self) -> int:
        return self._holder.pid

    @property
    def enter(self) -> list[str]:
        """The words that, before a command, run it in this network."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--"]

    def run(self, *command: str) -> str:
        return _run(*self.enter, *command)

    def close(self) -> None:
        self._holder.communicate()


class Host:
    """One end of a link.

    Attributes:
        address: its IPv4 address.
        enter: the words that, before a command, run it on this host.
        pid: the process that keeps its network alive.
    """

    def __init__(self, index: int, space: Namespace, hub: Namespace):
        self.address, self.enter, self.pid = f"{NETWORK}.{index + 1}", space.enter, space.pid
        self._ends = ((space, "wire"), (hub, f"wire{index}"))
        hub.run("ip", "link", "add", f"wire{index}", "type", "veth", "peer", "name", "wire", "netns", str(space.pid))
        hub.run("ip", "link", "set", f"wire{index}", "master", "hub", "up")
        space.run("ip", "address", "add", f"{self.address}/24", "dev", "wire")
        for device in ("lo", "wire"):
            space.run("ip", "link", "set", device, "up")

    def set_rate(self, megabits: float | None) -> None:
        """Sets the link's rate in megabits per second, each way; None: as fast as the machine.

        Raises:
            CtrlabError: the rate is not between `LEAST_RATE` and `MOST_RATE`; the link keeps its rate.
        """
        if megabits is None:
            for space, device in self._ends:
                with contextlib.suppress(CtrlabError):  # it had no rate
                    space.run("tc", "qdisc", "del", "dev", device, "root")
            return
        rate = require.numbers("A link's megabits per second", megabits, LEAST_RATE, most=MOST_RATE, single=True)
        limits = ("rate", f"{round(float(rate) * 1e6)}bit", "burst", str(BURST), "limit", str(QUEUE))
        for space, device in self._ends:
            space.run("tc", "qdisc", "replace", "dev", device, "root", "tbf", *limits)

    def sent(self) -> Sent:
        space, device = self._ends[0]
        found = space.run("cat", f"/proc/{space.pid}/net/dev")
        line = next(line for line in found.splitlines() if line.strip().startswith(f"{device}:"))
        numbers = line.partition(":")[2].split()
        return Sent(int(numbers[8]), int(numbers[9]))


@contextlib.contextmanager
def hosts(count: int) -> Iterator[Sequence[Host]]:
    """This number of hosts with links on one machine, which are at first as fast as the machine.

    Raises:
        CtrlabError: the number is not between 1 and `MOST_HOSTS`; this process may not make networks, or a program for it is
            missing.

    >>> with hosts(2) as (one, other):     # doctest: +SKIP
    ...     one.set_rate(100)
    ...     subprocess.run([*one.enter, "ping", "-c", "1", other.address])
    """
    number = int(require.numbers("The number of hosts", count, 1, most=MOST_HOSTS, whole=True, single=True))
    with contextlib.ExitStack() as last:
        spaces = [_space(last) for _ in range(number + 1)]
        hub = spaces.pop()
        hub.run("ip", "link", "add", "hub", "type", "bridge")
        hub.run("ip", "link", "set", "hub", "up")
        yield tuple(Host(index, space, hub) for index, space in enumerate(spaces))


_NEEDS = "Slow links are made of Linux's network namespaces, by root with the programs ip, tc, unshare and nsenter; {}."


def _space(last: contextlib.ExitStack) -> Namespace:
    try:
        space = Namespace()
    except OSError as error:
        raise CtrlabError(_NEEDS.format(error)) from None
    last.callback(space.close)
    return space


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise CtrlabError(_NEEDS.format(error)) from None
    if done.returncode:
        raise CtrlabError(_NEEDS.format(f"{' '.join(command)}: {done.stderr.strip()}"))
    return done.stdout

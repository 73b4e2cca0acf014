"""Divides CPUs among the members of a session group, by the hardware they share: cores, and the memory of NUMA nodes.

A node is a socket or a part of one, with memory of its own; another node's memory is slower to reach. So a member's CPUs belong
to one node, or are whole nodes if there are more nodes than members. They are whole cores if the node has a core for each of its
members.

Source: Linux, Documentation/ABI, /sys/devices/system/node and /sys/devices/system/cpu.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path

from ctrlab.errors import CtrlabError

SYSTEM = Path("/sys/devices/system")


def cpus_of(text: str) -> set[int] | None:
    """The CPUs in a text such as "0-3,8"; None if the text is not such a list."""
    found: set[int] = set()
    for part in text.split(","):
        ends = re.fullmatch(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", part)
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (1, 0)
        if first > last:
            return None
        found |= set(range(first, last + 1))
    return found


Node = Sequence[Sequence[int]]
"""A NUMA node: its cores, each as the CPUs that are the core's threads."""


def nodes(cpus: Collection[int] | None = None, system: Path = SYSTEM) -> list[Node]:
    """The NUMA nodes; a single node if the system lists none.

    Args:
        cpus: the CPUs that the process may use; None: as the system says. The result contains no other CPU.
    """
    free = set(os.sched_getaffinity(0) if cpus is None else cpus)
    found = []
    for node in sorted((system / "node").glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        here = free & _listed(node / "cpulist")
        found += [here] if here else []
        free -= here
    if free:
        found.append(free)
    return [_cores(here, system) for here in found]


def _cores(cpus: Collection[int], system: Path) -> Node:
    cores: dict[int, list[int]] = {}
    for cpu in sorted(cpus):
        cores.setdefault(min(_siblings(cpu, system)), []).append(cpu)
    return [cores[first] for first in sorted(cores)]


def shared_out(members: int, nodes: Sequence[Node]) -> list[list[int]]:
    """The CPUs of each member, as evenly as the nodes allow.

    Raises:
        CtrlabError: there are more members than CPUs.
    """
    cpus = [list(itertools.chain(*node)) for node in nodes]
    count = sum(map(len, cpus))
    if not 1 <= members <= count:
        raise CtrlabError(f"--cpus auto gives each member a CPU of its own; received {members} members for {count} CPUs.")
    if members <= len(nodes):
        return [sorted(itertools.chain(*each)) for each in _parts(cpus, members)]
    given = [1] * len(nodes)
    while sum(given) < members:  # the next one where its members have most CPUs each
        fullest = max(range(len(nodes)), key=lambda n: len(cpus[n]) / given[n])
        given[fullest] += 1
    found = []
    for node, here, of in zip(nodes, cpus, given):
        found += (itertools.chain(*cores) for cores in _parts(node, of)) if of <= len(node) else _parts(here, of)
    return [sorted(each) for each in found]


def _parts(whole: Sequence, count: int) -> list[Sequence]:
    """Splits a sequence into consecutive parts of about equal length."""
    ends = [len(whole) * n // count for n in range(count + 1)]
    return [whole[first:last] for first, last in itertools.pairwise(ends)]


def _siblings(cpu: int, system: Path) -> set[int]:
    return _listed(system / "cpu" / f"cpu{cpu}" / "topology" / "thread_siblings_list") or {cpu}


def _listed(path: Path) -> set[int]:
    """The CPUs in a file with a list such as "0-3,8"; empty if there is no such file, or no CPU in it."""
    try:
        return cpus_of(path.read_text().strip()) or set()
    except OSError:
        return set()

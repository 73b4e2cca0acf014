"""The session group that the options of `ctrlab serve` describe. Errors are reported before any model is loaded."""

from __future__ import annotations

import os
from collections.abc import Collection

from ctrlab.errors import CtrlabError
from ctrlab.server.nodes import cpus_of, nodes, shared_out


def group(members: int, policy: str, cpus: str = "", free: Collection[int] | None = None) -> dict:
    """A processor's configuration `group`.

    Args:
        cpus: the CPUs of each member, such as 0-3;4-7; "auto": CPUs are divided among members; "": each may use all.
        free: the CPUs that the process may use; None: as the system says.
    Raises:
        CtrlabError: more members than CPUs, not one set per member, or a CPU that does not exist.
    """
    free = os.sched_getaffinity(0) if free is None else free
    found = {"name": "all", "members": members, "policy": policy}
    if cpus == "auto":
        return found | {"cpus": [",".join(map(str, each)) for each in shared_out(members, nodes(free))]}
    if members > len(free):
        raise CtrlabError(
            f"--members is at most one for each CPU that the process may use, {len(free)} here; received {members}: give fewer."
        )
    if not cpus:
        return found
    texts = cpus.split(";")
    sets = [cpus_of(text) for text in texts]
    if None in sets or len(sets) != members:
        raise CtrlabError(
            f"--cpus has a set of CPUs for each member, such as 0-3;4-7, {members} by --members here; received {cpus!r}."
        )
    if odd := sorted(set().union(*sets) - set(free)):
        has = ", ".join(map(str, sorted(free)))
        raise CtrlabError(f"--cpus names CPUs that the process may use, {has} here; received {cpus!r}, and {odd[0]} is not one.")
    return found | {"cpus": texts}

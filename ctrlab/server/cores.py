"""Dedicated cores for a model in a server.

    dedicated    {"ctr": "0-5"}: requests for ctr run on CPUs 0 to 5, and no other model's do
    the rest     is shared by all other models

Each CPU is a member of a session group with one thread, so a request never waits while one of its CPUs is idle.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

from ctrlab.errors import CtrlabError
from ctrlab.server.nodes import cpus_of

Cores = Mapping[str, frozenset[int]]
"""{model: its CPUs}; those of all other models are under `OTHERS`."""
OTHERS = ""


def allocated(asked: Iterable[str], models: Collection[str], cpus: Collection[int] | None = None) -> Cores:
    """The CPUs of each model.

    Args:
        asked: assignments such as "ctr=0-3,8".
        models: the models of the server.
        cpus: the CPUs that the process may use; None: as the system says.
    Raises:
        CtrlabError: an assignment is malformed, a CPU does not exist or is assigned to two models, or none is left for the
            others.
    """
    free = set(os.sched_getaffinity(0) if cpus is None else cpus)
    found: dict[str, frozenset[int]] = {}
    for text in asked:
        name, _, sets = text.partition("=")
        if name not in models or name in found:
            why = "twice" if name in found else "and the server has " + ", ".join(models)
            raise CtrlabError(f"--dedicated names a model of the server once, such as ctr=0-3; received {text!r}, {why}.")
        wanted = cpus_of(sets)
        if wanted is None:
            raise CtrlabError(f"CPUs are numbers and ranges, such as ctr=0-3,8; received {text!r}.")
        if odd := sorted(wanted - free):
            left = ", ".join(map(str, sorted(free))) or "none"
            raise CtrlabError(f"--dedicated gives a CPU to one model; received {text!r}, and {left} are left, not {odd[0]}.")
        free -= wanted
        found[name] = frozenset(wanted)
    if len(found) < len(models):
        if not free:
            raise CtrlabError("--dedicated leaves the other models a CPU; all of the process's are given away: give fewer.")
        found[OTHERS] = frozenset(free)
    return found


def pool_of(model: str, cores: Cores) -> str:
    """The name under which a model's CPUs are listed."""
    return model if model in cores else OTHERS


def group(name: str, cpus: Iterable[int]) -> dict:
    """The processor configuration of a model with these CPUs."""
    sets = [str(cpu) for cpu in sorted(cpus)]
    shared = {"name": f"cores of {name}" if name else "cores of all others", "members": len(sets), "cpus": sets}
    return {"intra_op_threads": 1, "group": shared | {"policy": "least_in_flight"}}

"""Policies that allocate cores to models, and the largest load that each policy can take.

    split        each model has cores of its own, in proportion to its work
    shared       all models have all cores
    dedicated    the first model, which has most of the traffic, has as many cores of its own as it needs; the others, its A/B
                 variants, share the rest

Queueing theory gives the cores that a model needs: `ctrlab.load.erlang`. The policy "dedicated" is metaapp's on DeepRec.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from ctrlab.lessons.topics.share_cores.curve import Load
from ctrlab.lessons.topics.share_cores.simulation import Pool, simulate

from ctrlab.errors import CtrlabError, choose
from ctrlab.load import erlang

PERCENT = 99.0
"""This percentage of the requests must be answered within the limit."""
HALVINGS = 6
"""How often the search for the greatest load halves its range: the result is within 2 %."""


def predicted(load: Load, cores: int) -> float:
    """The 99th percentile of the seconds to an answer; infinite if the cores can't keep up."""
    times = np.outer([load.curve.mean(rows) for rows in load.rows], load.curve.spread)
    return erlang.percentile(times, load.per_second, cores, PERCENT, rest=load.curve.idle)


def cores_needed(load: Load, most: int) -> int:
    """The fewest cores with which the load is answered within its limit.

    Raises:
        CtrlabError: `most` cores are too few.
    """
    few, enough = 0, most + 1
    while enough - few > 1:
        cores = (few + enough) // 2
        few, enough = (few, cores) if predicted(load, cores) <= load.within else (cores, enough)
    if enough <= most:
        return enough
    raise CtrlabError(
        f"A model needs cores for {load.work:.2f} cores' work and to spare, and no request may be slower alone than "
        f"{1e3 * load.within:.3g} ms; {most} cores are too few: give it fewer requests, or more time."
    )


def split(loads: Mapping[str, Load], cores: int) -> list[Pool]:
    """Gives each model cores in proportion to its work, at least one, rounded by the largest remainders. Without any work:
    equal numbers.
    """
    _require(loads, cores, len(loads))
    idle = not any(load.work for load in loads.values())
    work = {model: 1.0 if idle else load.work for model, load in loads.items()}
    exact = {model: (cores - len(loads)) * each / sum(work.values()) for model, each in work.items()}
    given = {model: 1 + int(share) for model, share in exact.items()}
    left = cores - sum(given.values())
    for model in sorted(exact, key=lambda name: int(exact[name]) - exact[name])[:left]:
        given[model] += 1
    return [Pool(count, (model,)) for model, count in given.items()]


def shared(loads: Mapping[str, Load], cores: int) -> list[Pool]:
    """One pool of all cores, for all models."""
    _require(loads, cores, 1)
    return [Pool(cores, tuple(loads))]


def dedicated(loads: Mapping[str, Load], cores: int) -> list[Pool]:
    """Gives the first model the cores that it needs beside the others, and the others the rest; each side gets at least one
    core.
    """
    _require(loads, cores, min(2, len(loads)))
    first, *others = loads
    if not others:
        return shared(loads, cores)
    try:
        slowed = replace(loads[first], curve=loads[first].curve.beside(_busy_share(loads, cores)))
        own = cores_needed(slowed, cores - 1)
    except CtrlabError:
        own = cores - 1
    return [Pool(own, (first,)), Pool(cores - own, tuple(others))]


POLICIES: dict[str, Callable[[Mapping[str, Load], int], list[Pool]]] = {"split": split, "shared": shared, "dedicated": dedicated}


def most_load(policy: str, loads: Mapping[str, Load], cores: int, *, seconds: float, seed: int = 0) -> float:
    """The largest multiple of these loads that a machine takes with each model within its limit, by simulation.

    The machine is allocated anew for each load that is tried. 0: not even a hundredth of them.

    Raises:
        UnknownName: there is no such policy. CtrlabError: too few cores, or no request at all.
    """
    allocate = POLICIES[choose("policy", policy, POLICIES)]
    if not any(load.work for load in loads.values()):
        raise CtrlabError(f"The most that a machine takes is a multiple of a load; received {len(loads)} loads without requests.")

    def fits(factor: float) -> bool:
        scaled = {model: load.times(factor) for model, load in loads.items()}
        pools = allocate(scaled, cores)
        if any(sum(scaled[model].work for model in pool.models) >= pool.cores for pool in pools):
            return False
        took = simulate(pools, scaled, seconds=seconds, seed=seed, cores=cores)
        return all(np.percentile(took[m], PERCENT) <= load.within for m, load in scaled.items() if len(took[m]))

    high = cores / sum(load.work for load in loads.values())  # then all cores are busy
    low = 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _busy_share(loads: Mapping[str, Load], cores: int) -> float:
    """The share of cores that are busy. Busy cores slow each other down, and so keep each other busy longer: b = sum of work
    (1 + crowding b).
    """
    work = sum(load.work for load in loads.values()) / cores
    more = sum(load.work * load.curve.crowding for load in loads.values()) / cores
    return min(1.0, work / (1 - more)) if more < 1 else 1.0


def _require(loads: Mapping[str, Load], cores: int, least: int) -> None:
    if not loads or cores < least:
        raise CtrlabError(
            f"A policy shares out at least {max(1, least)} cores among at least one model; received {cores} cores and "
            f"{len(loads)} models."
        )

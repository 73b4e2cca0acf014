"""Compares policies for the allocation of cores on a large machine: a main model with most of the traffic, and its A/B variants.

The work that a policy carries is the largest load, in busy cores, with every model within its limit. Curves are measured on one
core of a small machine. So the numbers that they do not determine are varied: the share of the traffic that variants have, their
number, the limit, and how much cores slow each other down.
"""

from __future__ import annotations

from collections.abc import Mapping

from ctrlab.lessons.topics.share_cores.allocation import POLICIES, most_load
from ctrlab.lessons.topics.share_cores.curve import ServiceCurve
from ctrlab.lessons.topics.share_cores.experiment import Experiment

from ctrlab.profiling.progress import track

REQUESTS = 30_000
"""Number of simulated requests for each load that is tried."""


VARIED = (
    Experiment(),
    *(Experiment(variants=n) for n in (2, 4, 16)),
    *(Experiment(share=share) for share in (0.05, 0.5)),
    *(Experiment(patience=times) for times in (3.0, 10.0)),
    *(Experiment(crowding=times) for times in (0.0, 2.0)),
)
"""The experiments; each varies one number."""


def carried(
    experiment: Experiment, main: ServiceCurve, variant: ServiceCurve, cores: int, *, requests: int | None = None
) -> dict[str, float]:
    """{policy: the fraction of the machine's cores that it keeps busy within all limits}, from this number of requests per
    load.
    """
    loads = experiment.loads(main, variant)
    seconds = (requests or REQUESTS) / (cores * sum(load.per_second for load in loads.values()))
    return {policy: most_load(policy, loads, cores, seconds=seconds) / cores for policy in POLICIES}


def vary(curves: Mapping[str, ServiceCurve], cores: int) -> list[tuple[Experiment, dict[str, float]]]:
    """`carried` for each of `VARIED`. The first curve is the main model's, the second its variants'."""
    main, variant = curves.values()
    return [(each, carried(each, main, variant, cores)) for each in track(VARIED, f"Simulating {cores} cores")]

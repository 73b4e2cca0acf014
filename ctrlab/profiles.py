"""How big things are: `tiny` for tests, `lesson` for a laptop, `full` for a big machine.

Every size that depends on the machine's patience stands here, so that a lesson, the race and a test mean the same by a name.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ctrlab.errors import choose


@dataclass(frozen=True)
class Profile:
    """Sizes of one profile.

    Attributes:
        rows: generated rows a data set (train; a fifth as many more are held out).
        step_share: the share of the contest's step counts that the race trains.
        min_steps: steps that it trains at least; at `lesson` once over the rows, at the models' 512 rows a step.
        repetitions: timed repetitions of one variant (paired blocks).
        seeds: runs of the baseline that give the AUC's spread.
    """

    name: str
    rows: int
    step_share: float
    min_steps: int
    repetitions: int
    seeds: int


PROFILES = {
    p.name: p
    for p in (
        Profile("tiny", rows=4_096, step_share=0.0, min_steps=20, repetitions=3, seeds=2),
        Profile("lesson", rows=100_000, step_share=0.005, min_steps=195, repetitions=9, seeds=5),
        Profile("full", rows=8_000_000, step_share=1.0, min_steps=20, repetitions=15, seeds=5),
    )
}


def current(name: str | None = None) -> Profile:
    """The named profile, else that of `CTRLAB_PROFILE`, else `lesson`."""
    return PROFILES[choose("profile", name or os.environ.get("CTRLAB_PROFILE", "lesson"), PROFILES)]

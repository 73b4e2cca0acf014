"""The sizes of data and runs: `tiny` for tests, `lesson` for a laptop, `full` for a big machine.

All sizes that depend on the machine are here, so that a lesson, the race and a test mean the same by a profile's name.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ctrlab.errors import choose


@dataclass(frozen=True)
class Profile:
    """Sizes of one profile.

    Attributes:
        rows: generated train rows per data set (plus a fifth as many held-out rows).
        step_share: the fraction of the contest's steps that the race trains.
        min_steps: the least number of steps; at `lesson` one pass over the rows, at the models' 512 examples per step.
        repetitions: timed repetitions of one variant (paired blocks).
        seeds: runs of the baseline with different seeds, which give the spread of the AUC.
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
    """The named profile; default: `CTRLAB_PROFILE`'s, or else `lesson`."""
    return PROFILES[choose("profile", name or os.environ.get("CTRLAB_PROFILE") or "lesson", PROFILES)]

"""The search for threads in the lesson on stages: run here, or read from its record where the profile leaves no time for it.

python -m ctrlab.lessons.topics.threads_and_stages.thread_search        searches at the profile `lesson` and writes the record
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ctrlab.lessons import places
from ctrlab.paths import write_atomically
from ctrlab.profiles import Profile
from ctrlab.profiling.timing import Interval
from ctrlab.training.tune import Tuning, tune

RUNGS = "indicator,parsing,threads,stage"
BUDGET = 90.0
"""Seconds for a search."""


@dataclass(frozen=True)
class Search:
    """DeepFM's training speed with some settings, relative to TensorFlow's own setting.

    Attributes:
        pairs: {(intra-op threads, inter-op threads): a ratio per pair of blocks}; TensorFlow's own setting has ones.
        chosen: the setting that `ctrlab tune` took after a second race.
        device: the machine's line; of a recorded search it says so.
    """

    pairs: dict[tuple[int, int], list[float]]
    chosen: tuple[int, int]
    device: str

    def surface(self) -> dict[tuple[int, int], Interval]:
        return {setting: Interval.of(ratios) for setting, ratios in self.pairs.items()}

    def to_json(self) -> dict:
        points = [{"intra": intra, "inter": inter, "pairs": ratios} for (intra, inter), ratios in self.pairs.items()]
        return {"device": self.device, "rungs": RUNGS, "chosen": list(self.chosen), "points": points}


def search(profile: Profile) -> Search:
    """Searches for `BUDGET` seconds; at `tiny` the recorded search."""
    return recorded() if profile.name == "tiny" else of(tune("deepfm", RUNGS, budget=BUDGET))


def of(found: Tuning) -> Search:
    pairs = {(p.setting.intra, p.setting.inter): [round(ratio, 4) for ratio in p.pairs] for p in found.threads}
    return Search(pairs, found.chosen("threads"), found.device)


def recorded() -> Search:
    found = json.loads(record_path().read_text(encoding="utf-8"))
    pairs = {(point["intra"], point["inter"]): point["pairs"] for point in found["points"]}
    return Search(pairs, tuple(found["chosen"]), f"recorded on {found['device']}")


def write(found: Search) -> None:
    write_atomically(record_path(), json.dumps(found.to_json()) + "\n")


def record_path() -> Path:
    return places.notebooks().parent / "data/measurements/threads_deepfm.json"


if __name__ == "__main__":
    write(of(tune("deepfm", RUNGS, budget=BUDGET, profile="lesson", keep=False)))

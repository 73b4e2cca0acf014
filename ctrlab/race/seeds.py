"""The baseline's AUCs for other seeds, kept between races. They depend only on the rows, the code and the library versions.

They show how much the AUC varies by chance. They cost one training per seed. Each has a file in the cache folder.
"""

from __future__ import annotations

import hashlib
import json
from importlib import metadata
from pathlib import Path

from ctrlab import imports
from ctrlab.paths import cache_folder, write_atomically
from ctrlab.profiling.machine import versions

Aucs = list[dict[str, float]]
"""{label: AUC} of each seed."""


def place_of(model: str, rows: str, steps: int, seeds: list[int]) -> Path:
    """The file with the AUCs of a baseline.

    Args:
        rows: `data.DataFiles.made_of`.
    """
    known = imports.modules()
    code = imports.used("ctrlab.training.run", "ctrlab.race.worker", f"ctrlab.models.{model}", known=known)
    libraries = versions() | {name: metadata.version(name) for name in ("keras", "scikit-learn")}  # they affect AUCs
    facts = {"rows": rows, "steps": steps, "seeds": seeds, "versions": libraries}
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for module in code:
        digest.update(known[module].read_bytes())
    return cache_folder() / f"aucs-{model}-{digest.hexdigest()[:16]}.json"


def load(place: Path, count: int) -> Aucs | None:
    """The AUCs of `count` seeds; None if there are none, or if the file can't be parsed."""
    try:
        found = json.loads(place.read_text())
        whole = len(found) == count and all(0 <= float(auc) <= 1 for of_seed in found for auc in of_seed.values())
        return found if whole else None
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def save(place: Path, found: Aucs) -> None:
    write_atomically(place, json.dumps(found) + "\n")

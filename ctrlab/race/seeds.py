"""The baseline's AUCs with other seeds, kept from one race to the next: what they are depends on the rows, the code and versions.

They say how far AUC varies by chance, and cost as many trainings as there are seeds. A file in the cache folder each.
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
    """Where the AUCs of a baseline lie.

    Args:
        rows: `data.DataFiles.made_of`.
    """
    known = imports.modules()
    code = imports.used("ctrlab.training.run", "ctrlab.race.worker", f"ctrlab.models.{model}", known=known)
    libraries = versions() | {name: metadata.version(name) for name in ("keras", "scikit-learn")}  # weights, and AUCs
    facts = {"rows": rows, "steps": steps, "seeds": seeds, "versions": libraries}
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for module in code:
        digest.update(known[module].read_bytes())
    return cache_folder() / f"aucs-{model}-{digest.hexdigest()[:16]}.json"


def load(place: Path, count: int) -> Aucs | None:
    """The AUCs of `count` seeds; None where there are none, or the file can't be understood."""
    try:
        found = json.loads(place.read_text())
        whole = len(found) == count and all(0 <= float(auc) <= 1 for of_seed in found for auc in of_seed.values())
        return found if whole else None
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def save(place: Path, found: Aucs) -> None:
    write_atomically(place, json.dumps(found) + "\n")

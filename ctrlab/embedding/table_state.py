"""The content of one embedding variable as plain arrays. Checkpoints write it, analysis reads it, resharding splits it.

n rows with S optimizer slots each, m counted keys without a row yet, r keys removed since the previous cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ctrlab.errors import CtrlabError

ROWS = {"keys": np.int64, "values": np.float32, "frequencies": np.int64, "steps": np.int64}
CANDIDATES = {"candidate_keys": np.int64, "candidate_counts": np.int64, "candidate_steps": np.int64}
OTHERS = {"filter": np.uint8, "removed": np.int64}
FIELDS = ROWS | CANDIDATES | OTHERS
"""{array of a state: its dtype} for all arrays but the slots, which are float32."""


@dataclass
class TableState:
    """The whole content of a table, or its changes since the previous cut.

    Attributes:
        keys: int64 [n], each once, in any order.
        values: float32 [n, D].
        slots: {name: float32 [n, D]}, in the optimizer's order.
        frequencies: int64 [n]: how often the key came in training.
        steps: int64 [n]: the optimizer's step (1 for the first) that last changed the row.
        candidate_keys, candidate_counts, candidate_steps: int64 [m]: counted, not admitted yet.
        filter: uint8 [..]: the counters of a Bloom filter in their memory layout; empty without a filter.
        removed: int64 [r]: keys removed since the previous cut; only in a state of changes.
    """

    keys: np.ndarray
    values: np.ndarray
    slots: dict[str, np.ndarray]
    frequencies: np.ndarray
    steps: np.ndarray
    candidate_keys: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    candidate_counts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    candidate_steps: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    filter: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))
    removed: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self):
        n, m = len(self.keys), len(self.candidate_keys)
        sizes = {"values": self.values, "frequencies": self.frequencies, "steps": self.steps, **self.slots}
        for name, array in sizes.items():
            if len(array) != n:
                raise CtrlabError(f"A table's arrays must have a row for each of its {n} keys; {name} has {len(array)}.")
        for name in ("candidate_counts", "candidate_steps"):
            if len(getattr(self, name)) != m:
                raise CtrlabError(f"A table has {m} candidates; {name} has {len(getattr(self, name))}.")

    @property
    def dim(self) -> int:
        return self.values.shape[1]

"""The lengths of real histories, for benches of ops over events."""

from __future__ import annotations

import functools
import json
from importlib import resources

import numpy as np

LONGEST = 50
"""The most events of a history that the models keep."""


@functools.cache
def _quantiles() -> np.ndarray:
    """Quantiles of the lengths, measured on the reviews."""
    measured = resources.files("ctrlab") / "data" / "statistics" / "amazon_reviews.json"
    return np.asarray(json.loads(measured.read_text(encoding="utf-8"))["lengths"]["history_items"]["quantiles"])


def real_lengths(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Lengths of `rows` histories as in the reviews, ints in [1, LONGEST]: many are short, a few reach the longest."""
    drawn = np.interp(rng.random(rows), np.linspace(0, 1, len(_quantiles())), _quantiles())
    return np.clip(np.round(drawn), 1, LONGEST).astype(np.int64)

"""Criteo display ads (Kaggle): a label, 13 counts and 26 anonymous categories, in the original tab-separated order."""

from __future__ import annotations

import numpy as np

from ctrlab.data.generator import Generator
from ctrlab.data.marginals import statistics
from ctrlab.features import Categorical, Label, Numeric, Schema

COUNTS = tuple(f"I{i}" for i in range(1, 14))
CATEGORIES = tuple(f"C{i}" for i in range(1, 27))

SCHEMA = Schema(
    "criteo",
    (
        Label("label"),
        # I2 is the one count that goes below zero, down to -3.
        *(Numeric(name, transform="log1p", low=-3.0 if name == "I2" else 0.0) for name in COUNTS),
        *(Categorical(name, buckets=10_000) for name in CATEGORIES),
    ),
    wide=CATEGORIES,
    delimiter="\t",
)


def _draw(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    return statistics("criteo").sample(rng, rows, COUNTS + CATEGORIES)


GENERATOR = Generator(SCHEMA, _draw)

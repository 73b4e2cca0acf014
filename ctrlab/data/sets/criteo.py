"""Criteo display ads (Kaggle): a label, 13 counts and 26 anonymous categories, in the original tab-separated order.

The raw file has no header; an empty field is a missing value.
"""

from __future__ import annotations

import numpy as np

from ctrlab.data.generator import Generator
from ctrlab.data.marginals import Published, statistics
from ctrlab.data.planted import Plan
from ctrlab.data.raw.delimited import delimited
from ctrlab.data.raw.layout import Layout, Raw
from ctrlab.schema import Categorical, Label, Numeric, Schema

COUNTS = tuple(f"I{i}" for i in range(1, 14))
CATEGORIES = tuple(f"C{i}" for i in range(1, 27))

SCHEMA = Schema(
    "criteo",
    (
        Label("label"),
        # I2 is the only count that can be negative, down to -3.
        *(Numeric(name, transform="log1p", low=-3.0 if name == "I2" else 0.0) for name in COUNTS),
        *(Categorical(name, buckets=10_000) for name in CATEGORIES),
    ),
    wide=CATEGORIES,
    delimiter="\t",
)
DIFFERENT = (1396, 553, 2594031, 698469, 290, 23, 12048, 608, 3, 65156, 5309, 2186509, 3128, 26, 12750, 1537323, 10, 5002)
DIFFERENT += (2118, 4, 1902327, 17, 15, 135790, 94, 84305)
PUBLISHED = Published(
    "Measured on a random 0.3 % of the Criteo Kaggle display-ads training set; cardinalities are the full set's.",
    dict(zip(CATEGORIES, DIFFERENT)),
)
PLAN = Plan(
    {"label": 1.6},
    # first, pairs, interest, order, rare, drift
    (0.50, 0.40, 0.0, 0.0, 0.05, 0.05),
    first=("I2", "I5", "I6", "I7", "I11", "I13", "C6", "C14", "C17", "C23"),
    pairs=(("C14", "C17"), ("C17", "C23"), ("I5", "C14"), ("I11", "I13")),
    rare=("C1", "C10", "C26"),
    drift=("C14", "C23"),
)
RAW = Raw(SCHEMA, (Layout(("criteo_kaggle/train.tsv",)), Layout(("criteo_kaggle/train.txt",))), delimited)


def _draw(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    return statistics("criteo").sample(rng, rows, COUNTS + CATEGORIES)


GENERATOR = Generator(SCHEMA, _draw, PLAN)

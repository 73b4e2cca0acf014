"""Criteo display ads (Kaggle): tab-separated label, I1..I13, C1..C26 without a header; an empty field is a missing value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from ctrlab.data.criteo import SCHEMA
from ctrlab.data.raw.delimited import delimited
from ctrlab.data.raw.intake import Intake


def tables(sources: Sequence[Path], intake: Intake) -> Iterator[pa.Table]:
    return delimited(sources, intake, SCHEMA)

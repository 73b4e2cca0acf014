"""The contest's food-delivery set: comma-separated, 39 columns, lists joined by `;`, with or without a header."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from ctrlab.data.food_delivery import SCHEMA
from ctrlab.data.raw.delimited import delimited
from ctrlab.data.raw.intake import Intake


def tables(sources: Sequence[Path], intake: Intake) -> Iterator[pa.Table]:
    return delimited(sources, intake, SCHEMA)

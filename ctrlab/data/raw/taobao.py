"""Taobao ads as DeepRec's MMoE reads them: 20 comma-separated columns without a header, tag lists joined by `|`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from ctrlab.data.raw.delimited import delimited
from ctrlab.data.raw.intake import Intake
from ctrlab.data.taobao import SCHEMA


def tables(sources: Sequence[Path], intake: Intake) -> Iterator[pa.Table]:
    return delimited(sources, intake, SCHEMA)

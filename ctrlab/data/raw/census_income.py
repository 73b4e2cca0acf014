"""Census-Income (KDD): comma-separated, with a header of 40 names, or as UCI has it: 42 columns without one.

UCI's file puts a space after each comma, ends in `- 50000.` or `50000+.`, and has two columns more, the instance weight and
the year, which are no inputs. The text "NA" is a value. `marital_stat` becomes the label `never_married`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ctrlab.data.census_income import COLUMNS, SCHEMA
from ctrlab.data.raw.delimited import Text, delimited
from ctrlab.data.raw.intake import Intake
from ctrlab.data.raw.lines import LineFile

RAW = ["marital_stat" if name == "never_married" else name for name in COLUMNS]
UCI = [*RAW[:24], "instance_weight", *RAW[24:39], "year", RAW[39]]
MARITAL = (
    "Never married",
    "Married-civilian spouse present",
    "Married-spouse absent",
    "Married-A F spouse present",
    "Divorced",
    "Separated",
    "Widowed",
)
INCOME = {"- 50000.": "0", "50000+.": "1"}


def tables(sources: Sequence[Path], intake: Intake) -> Iterator[pa.Table]:
    for source in sources:
        with LineFile(source) as file:
            fields = file.take(1).line(0).count(b",") + 1
        yield from delimited([source], intake, SCHEMA, names=UCI if fields == len(UCI) else RAW, prepare=_prepare)


def _prepare(text: pa.Table, rows: Text) -> pa.Table:
    columns = {name: pc.utf8_trim_whitespace(text[name].combine_chunks()) for name in RAW}
    marital = columns.pop("marital_stat")
    unknown = pc.invert(pc.is_in(marital, pa.array(MARITAL)))
    rows.reject_where(unknown, "marital_stat is unknown", lambda i: f"got {marital[i].as_py() or ''!r}")
    columns["never_married"] = pc.cast(pc.cast(pc.equal(marital, MARITAL[0]), pa.int8()), pa.string())
    income = columns["income_50k"]
    for word, label in INCOME.items():
        income = pc.replace_substring(income, word, label)
    columns["income_50k"] = income
    return pa.table(columns)

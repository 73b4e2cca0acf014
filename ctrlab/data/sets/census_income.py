"""Census-Income (KDD): MMoE's classic pair of tasks, income over 50k and never married.

`never_married` replaces the raw file's `marital_stat`. It is made from that column, so that column can't be an input.

The raw file is comma-separated, with a header of 40 names, or as published by UCI: 42 columns without a header. UCI's file has a
space after each comma, ends its lines in `- 50000.` or `50000+.`, and has two more columns, the instance weight and the year,
which are not inputs. The text "NA" is a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ctrlab.data.generator import Generator
from ctrlab.data.marginals import Published, statistics
from ctrlab.data.planted import Plan
from ctrlab.data.raw.delimited import Text, delimited
from ctrlab.data.raw.intake import Intake
from ctrlab.data.raw.layout import Layout, Raw
from ctrlab.data.raw.lines import LineFile
from ctrlab.schema import Categorical, Label, Numeric, Schema

COLUMNS = [
    "age",
    "class_worker",
    "det_ind_code",
    "det_occ_code",
    "education",
    "wage_per_hour",
    "hs_college",
    "never_married",
    "major_ind_code",
    "major_occ_code",
    "race",
    "hisp_origin",
    "sex",
    "union_member",
    "unemp_reason",
    "full_or_part_emp",
    "capital_gains",
    "capital_losses",
    "stock_dividends",
    "tax_filer_stat",
    "region_prev_res",
    "state_prev_res",
    "det_hh_fam_stat",
    "det_hh_summ",
    "mig_chg_msa",
    "mig_chg_reg",
    "mig_move_reg",
    "mig_same",
    "mig_prev_sunbelt",
    "num_emp",
    "fam_under_18",
    "country_father",
    "country_mother",
    "country_self",
    "citizenship",
    "own_or_self",
    "vet_question",
    "vet_benefits",
    "weeks_worked",
    "income_50k",
]
LABELS = ("never_married", "income_50k")
# Amounts of money span decades; the other numbers have a known, short range.
MONEY = ("wage_per_hour", "capital_gains", "capital_losses", "stock_dividends")
RANGES = {"age": 90.0, "num_emp": 6.0, "weeks_worked": 52.0}


def _column(name: str):
    if name in LABELS:
        return Label(name)
    if name in MONEY:
        return Numeric(name, transform="log1p")
    if name in RANGES:
        return Numeric(name, transform="minmax", high=RANGES[name])
    return Categorical(name, buckets=1_000)


_columns = tuple(map(_column, COLUMNS))
SCHEMA = Schema("census_income", _columns, wide=tuple(c.name for c in _columns if isinstance(c, Categorical)))
PUBLISHED = Published("Measured on the UCI Census-Income (KDD) set, train and test rows.")
PLAN = Plan(
    {"never_married": 9.0, "income_50k": 3.2},
    # first, pairs, interest, order, rare, drift
    (0.55, 0.45, 0.0, 0.0, 0.0, 0.0),
    first=("age", "weeks_worked", "num_emp", "stock_dividends", "education", "major_occ_code", "sex", "tax_filer_stat"),
    pairs=(("education", "sex"), ("sex", "tax_filer_stat"), ("age", "det_hh_summ"), ("age", "weeks_worked")),
    common=0.4,
)

RAW_NAMES = ["marital_stat" if name == "never_married" else name for name in COLUMNS]
UCI_NAMES = [*RAW_NAMES[:24], "instance_weight", *RAW_NAMES[24:39], "year", RAW_NAMES[39]]
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


def _draw(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    return statistics("census_income").sample(rng, rows, [column.name for column in SCHEMA.features])


GENERATOR = Generator(SCHEMA, _draw, PLAN)


def _tables(sources: Sequence[Path], intake: Intake, schema: Schema) -> Iterator[pa.Table]:
    for source in sources:
        with LineFile(source) as file:
            fields = file.take(1).line(0).count(b",") + 1
        names = UCI_NAMES if fields == len(UCI_NAMES) else RAW_NAMES
        yield from delimited([source], intake, schema, names=names, prepare=_prepare)


def _prepare(text: pa.Table, rows: Text) -> pa.Table:
    columns = {name: pc.utf8_trim_whitespace(text[name].combine_chunks()) for name in RAW_NAMES}
    marital = columns.pop("marital_stat")
    unknown = pc.invert(pc.is_in(marital, pa.array(MARITAL)))
    rows.reject_where(unknown, "marital_stat is unknown", lambda i: f"got {marital[i].as_py() or ''!r}")
    columns["never_married"] = pc.cast(pc.cast(pc.equal(marital, MARITAL[0]), pa.int8()), pa.string())
    income = columns["income_50k"]
    for word, label in INCOME.items():
        income = pc.replace_substring(income, word, label)
    columns["income_50k"] = income
    return pa.table(columns)


RAW = Raw(
    SCHEMA,
    (
        Layout(("census_income/train.csv",), ("census_income/test.csv",)),
        Layout(("census_income/census-income.data",), ("census_income/census-income.test",)),
    ),
    _tables,
)

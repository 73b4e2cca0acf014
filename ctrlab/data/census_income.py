"""Census-Income (KDD): MMoE's classic pair of tasks, income over 50k and never married.

`never_married` stands where the raw file has `marital_stat`, which it is made from and which is therefore no input.
"""

from __future__ import annotations

import numpy as np

from ctrlab.data.generator import Generator
from ctrlab.data.marginals import statistics
from ctrlab.features import Categorical, Label, Numeric, Schema

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
# Money is spread over decades; the other numbers have a known, short range.
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


def _draw(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    return statistics("census_income").sample(rng, rows, [column.name for column in SCHEMA.features])


GENERATOR = Generator(SCHEMA, _draw)

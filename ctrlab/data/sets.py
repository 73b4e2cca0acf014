"""The data sets by name: their schemas and generators."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ctrlab.data import amazon_reviews, census_income, criteo, food_delivery, taobao
from ctrlab.errors import CtrlabError, choose
from ctrlab.features import Schema

MODULES = {module.SCHEMA.name: module for module in (food_delivery, criteo, amazon_reviews, taobao, census_income)}
SCHEMAS: dict[str, Schema] = {name: module.SCHEMA for name, module in MODULES.items()} | {"rees46": amazon_reviews.REES46}


def schema(name: str) -> Schema:
    """The schema of a data set; UnknownName with the nearest where there is none."""
    return SCHEMAS[choose("data set", name, SCHEMAS)]


def generate(name: str, rows: int, seed: int = 0) -> Iterator[pa.Table]:
    """The first `rows` rows of the made-up stream of a data set, always the same for a seed, some thousand a table."""
    return _generator(name).generate(rows, seed)


def ceiling(name: str, rows: int, seed: int = 0) -> dict[str, float]:
    """AUC by label of the model that drew these rows' labels: no model can expect more."""
    return _generator(name).ceiling(rows, seed)


def _generator(name: str):
    schema(name)
    if name not in MODULES:
        raise CtrlabError(f'{name} has no generator; use source="real", or amazon_reviews, which has the same columns.')
    return MODULES[name]

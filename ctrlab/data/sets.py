"""The data sets by name: their schemas and generators."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ctrlab.data import amazon_reviews, census_income, criteo, food_delivery, taobao
from ctrlab.data.generator import Generator
from ctrlab.errors import choose
from ctrlab.features import Schema

GENERATORS: dict[str, Generator] = {
    generator.schema.name: generator
    for generator in (
        food_delivery.GENERATOR,
        criteo.GENERATOR,
        amazon_reviews.GENERATOR,
        amazon_reviews.REES46_GENERATOR,
        taobao.GENERATOR,
        census_income.GENERATOR,
    )
}
SCHEMAS: dict[str, Schema] = {name: generator.schema for name, generator in GENERATORS.items()}


def schema(name: str) -> Schema:
    """The schema of a data set; UnknownName with the nearest where there is none."""
    return SCHEMAS[choose("data set", name, SCHEMAS)]


def generate(name: str, rows: int, seed: int = 0) -> Iterator[pa.Table]:
    """The first `rows` rows of the made-up stream of a data set, always the same for a seed, some thousand a table."""
    return GENERATORS[choose("data set", name, GENERATORS)].generate(rows, seed)


def ceiling(name: str, rows: int, seed: int = 0) -> dict[str, float]:
    """AUC by label of the model that drew these rows' labels: no model can expect more."""
    return GENERATORS[choose("data set", name, GENERATORS)].ceiling(rows, seed)

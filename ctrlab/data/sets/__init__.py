"""The data sets by name. Each module of this folder is one data set, and has its name.

A module describes its set in constants, which are found by walking the folder. So a new set is a new module, and no list changes.

    SCHEMA      the columns (`ctrlab.schema.Schema`)
    RAW         the publisher's files: their locations and their reader (`ctrlab.data.raw.layout.Raw`)
    GENERATOR   generates rows with a planted model behind the labels (`ctrlab.data.generator.Generator`), from the statistics in
                `ctrlab/data/statistics/<name>.json`; a set without a generator can only be converted
    PUBLISHED   published facts about the full set, if the statistics were measured on a sample
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pyarrow as pa

from ctrlab.data.engine import Engine
from ctrlab.data.generator import Generator
from ctrlab.data.marginals import Published
from ctrlab.data.raw.layout import Raw
from ctrlab.errors import choose
from ctrlab.schema import Schema

_MODULES = {module.name: importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)}


def _constants(constant: str) -> dict:
    return {name: getattr(module, constant) for name, module in _MODULES.items() if hasattr(module, constant)}


RAWS: dict[str, Raw] = _constants("RAW")
GENERATORS: dict[str, Generator] = _constants("GENERATOR")
PUBLISHED: dict[str, Published] = _constants("PUBLISHED")
SCHEMAS: dict[str, Schema] = {name: generator.schema for name, generator in GENERATORS.items()}


def schema(name: str) -> Schema:
    """The schema of a data set. Raises UnknownName with the nearest name if there is no such set."""
    return SCHEMAS[choose("data set", name, SCHEMAS)]


def generate(name: str, rows: int, seed: int = 0, engine: Engine = map) -> Iterator[pa.Table]:
    """The first `rows` generated rows of a data set, the same for equal seeds, in tables of some thousand rows.

    Args:
        engine: makes the tables; `ctrlab.data.ray_engine` has one of many processes. The rows are the same.
    """
    return GENERATORS[choose("data set", name, GENERATORS)].generate(rows, seed, engine)


def ceiling(name: str, rows: int, seed: int = 0, engine: Engine = map) -> dict[str, float]:
    """The AUC, by label, of the model that drew these rows' labels: the expected upper limit of any model."""
    return GENERATORS[choose("data set", name, GENERATORS)].ceiling(rows, seed, engine)

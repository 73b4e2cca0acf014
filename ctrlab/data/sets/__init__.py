"""The data sets by name: each module of this folder is one, and bears its name.

A module says what its set is in constants; the folder is walked for them, so a new set is a new module and edits no list.

    SCHEMA      the columns (`ctrlab.features.Schema`)
    RAW         the publisher's files: where they lie and what reads them (`ctrlab.data.raw.layout.Raw`)
    GENERATOR   makes rows with a planted model behind the labels (`ctrlab.data.generator.Generator`), by the figures of
                `ctrlab/data/statistics/<name>.json`; a set without one can be converted only
    PUBLISHED   what its publisher says of the full set, where figures were measured on a sample
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pyarrow as pa

from ctrlab.data.generator import Generator
from ctrlab.data.marginals import Published
from ctrlab.data.raw.layout import Raw
from ctrlab.errors import choose
from ctrlab.features import Schema

_MODULES = {module.name: importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)}


def _said(constant: str) -> dict:
    return {name: getattr(module, constant) for name, module in _MODULES.items() if hasattr(module, constant)}


RAWS: dict[str, Raw] = _said("RAW")
GENERATORS: dict[str, Generator] = _said("GENERATOR")
PUBLISHED: dict[str, Published] = _said("PUBLISHED")
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

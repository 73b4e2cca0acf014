"""`ctrlab data list`."""

from __future__ import annotations

from rich.table import Column, Table

from ctrlab.cli.app import console
from ctrlab.model_names import DATA_SETS


def command() -> None:
    """The data sets: their columns, their labels, and the models that train on them."""
    from ctrlab import data
    from ctrlab.race import contest

    headings = ("columns", "labels", "numbers", "ids", "lists", "raced generated", "raced real")
    table = Table(Column("data set", no_wrap=True), *headings)
    for name, schema in data.SCHEMAS.items():
        lists = len(schema.multi_hots) + len(schema.sequences) + len(schema.numeric_lists)
        counts = (len(schema.columns), len(schema.labels), len(schema.numerics), len(schema.categoricals), lists)
        users = (", ".join(m for m in DATA_SETS if contest.data_set(m, source) == name) for source in ("generated", "real"))
        table.add_row(name, *map(str, counts), *users)
    console().print(table)

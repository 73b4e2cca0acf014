"""`ctrlab data`: list, generate, convert, measure."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from ctrlab import data, profiles
from ctrlab.errors import CtrlabError
from ctrlab.model_names import DATA_SETS
from ctrlab.race import contest


def show() -> None:
    """The data sets, their columns, and the models that race on them."""
    headings = ("columns", "labels", "numbers", "ids", "lists", "raced generated", "raced real")
    table = Table(Column("data set", no_wrap=True), *headings)
    for name, schema in data.SCHEMAS.items():
        lists = len(schema.multi_hots) + len(schema.sequences) + len(schema.numeric_lists)
        counts = (len(schema.columns), len(schema.labels), len(schema.numerics), len(schema.categoricals), lists)
        users = (", ".join(m for m in DATA_SETS if contest.data_set(m, source) == name) for source in ("generated", "real"))
        table.add_row(name, *map(str, counts), *users)
    Console().print(table)


def generate(name: str, rows: int | None, out: Path | None, format: str | None, seed: int, profile: str | None) -> None:
    """Rows into the cache, or with `rows` and `out` into one file; prints the AUC of the planted model."""
    names = list(data.SCHEMAS) if name == "all" else [name]
    if (rows is None) != (out is None) or (out and len(names) > 1):
        raise CtrlabError("A file of your own takes --rows and --out together, and one data set; else leave both out.")
    for each in names:
        if out:
            written = data.write(data.generate(each, rows, seed), data.schema(each), out, format, total=rows)
            print(f"{each}: {written:,} rows in {out}; {_ceiling(data.ceiling(each, rows, seed))}")
        else:
            files = data.prepare(each, profile=profiles.current(profile), format=format or "parquet")
            print(f"{each}: {files.rows:,} rows and {files.test_rows:,} held out; {_ceiling(files.ceiling)}")


def convert(name: str, files: list[Path], out: Path) -> None:
    """Raw files to Parquet; prints the counts."""
    from ctrlab.data.convert import convert

    counts = convert(name, files, out)
    print(f"{out}: {counts.written:,} rows of {counts.read:,} that were read")
    if counts.rejected:
        print(f"{out}.rejects.tsv: {counts.rejected:,} rejected, each with its file, line and reason")
        for reason, count in counts.reasons.most_common():
            print(f"  {count:,}: {reason}")


def statistics(name: str, file: Path) -> None:
    """Prints the JSON of what was measured on a converted file."""
    from ctrlab.data.measure import measure_file

    print(measure_file(name, file).to_text(), end="")


def _ceiling(auc: dict[str, float]) -> str:
    return "AUC's ceiling: " + ", ".join(f"{label} {value:.4f}" for label, value in auc.items())

"""Reads DIN's and DIEN's layout (the published Amazon Books set, and REES46) into the columns of `amazon_reviews`.

A line of `local_{train,test}_splitByUser` is label, user, item, category, history of items, history of categories. Tabs separate
the fields; byte 0x02 separates the entries of a history. The file `<same name>_neg` next to it has, line by line, a history of
items that were not chosen, and their categories. The original DIEN data has no such file. Then negatives are drawn by the
original's rule: any item but the one at that position, in proportion to its occurrences in the histories of the file.

JSON sources are the publisher's own reviews and item descriptions: see `amazon_json`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ctrlab.data.raw import amazon_json
from ctrlab.data.raw.catalogue import Catalogue
from ctrlab.data.raw.delimited import Text
from ctrlab.data.raw.intake import BLOCK_LINES, Faults, Intake
from ctrlab.data.raw.lines import Block
from ctrlab.errors import BadData
from ctrlab.schema import Schema

OWN = slice(0, 6)  # columns in the line itself
NEGATIVES = slice(6, 8)  # columns in the `_neg` file
LISTS = slice(4, 8)
JOIN = "\x02"
NOT_ROWS = ("_neg", "item-info", "reviews-info")  # suffixes of files that accompany the rows


def tables(sources: Sequence[Path], intake: Intake, schema: Schema) -> Iterator[pa.Table]:
    if any(_plain_name(source).endswith(".json") for source in sources):
        yield from amazon_json.tables(sources, intake, schema)
        return
    for source in sources:
        name = _plain_name(source)
        if not name.endswith(NOT_ROWS):
            negatives = _file_next_to(source, name + "_neg")
            yield from _aligned(source, negatives, intake, schema) if negatives else _drawn(source, intake, schema)


def _plain_name(path: Path) -> str:
    return path.name.removesuffix(".gz")


def _file_next_to(source: Path, name: str) -> Path | None:
    """The file of that name in the source's folder, plain or gzip."""
    return next((path for path in (source.with_name(name), source.with_name(name + ".gz")) if path.exists()), None)


def _names(schema: Schema, part: slice) -> list[str]:
    return [column.name for column in schema.columns[part]]


def _aligned(source: Path, negatives: Path, intake: Intake, schema: Schema) -> Iterator[pa.Table]:
    """Rows of two files that correspond line by line."""
    intake.expect(negatives)
    yield from intake.parsed(functools.partial(_joined, schema=schema), _pairs(source, negatives, intake))


def _pairs(source: Path, negatives: Path, intake: Intake) -> Iterator[tuple[Block, Block]]:
    with intake.open(source) as main, intake.open(negatives) as other:
        for block in main.blocks(BLOCK_LINES):
            beside = other.take(len(block), most_bytes=float("inf"))
            if len(beside) < len(block):
                raise BadData(
                    f"{negatives} ends after line {beside.first + len(beside) - 1}, but {source} goes on; line by line they "
                    f"belong together. Make the negatives again, or remove that file to have others drawn."
                )
            yield block, beside
        if extra := other.take(1):
            raise BadData(
                f"{negatives} goes on in line {extra.first}, but {source} has ended; line by line they belong together."
            )


def _joined(pair: tuple[Block, Block], schema: Schema) -> tuple[pa.Table, Faults]:
    block, beside = pair
    faults = Faults(block)
    text = Text(block, _names(schema, OWN), schema.delimiter, faults)
    negatives = Text(beside, _names(schema, NEGATIVES), schema.delimiter, faults, reported=beside)
    both = np.intersect1d(text.rows, negatives.rows)
    for part in (text, negatives):
        part.table = part.table.take(np.searchsorted(part.rows, both))
    text.rows = both
    for name in _names(schema, NEGATIVES):
        text.table = text.table.append_column(name, negatives.table[name])
    return _checked(text, schema), faults


def _drawn(source: Path, intake: Intake, schema: Schema) -> Iterator[pa.Table]:
    """Rows of a file without negatives. The file is read twice."""
    parse = functools.partial(_with_negatives, schema=schema, catalogue=_own_items(source, intake, schema))
    yield from intake.parsed(parse, intake.blocks(source))


def _with_negatives(block: Block, schema: Schema, catalogue: Catalogue) -> tuple[pa.Table, Faults]:
    faults = Faults(block)
    text = Text(block, _names(schema, OWN), schema.delimiter, faults)
    lengths = _lengths(text.table["history_items"])
    history = pc.split_pattern(text.table["history_items"].combine_chunks().drop_null(), JOIN).flatten()
    drawn = catalogue.draw_other_than(catalogue.codes(history), seed=block.first)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    for name, values in zip(_names(schema, NEGATIVES), (catalogue.items(drawn), catalogue.categories(drawn))):
        joined = pc.binary_join(pa.ListArray.from_arrays(offsets, values), JOIN)
        text.table = text.table.append_column(name, pc.if_else(pa.array(lengths > 0), joined, None))
    return _checked(text, schema), faults


def _own_items(source: Path, intake: Intake, schema: Schema) -> Catalogue:
    """The items in all histories of a file, with their occurrences."""
    catalogue = Catalogue()
    intake.expect(source)
    # The second pass over the file records the faults.
    for both in intake.engine(functools.partial(_items, schema=schema), intake.blocks(source)):
        catalogue.see(catalogue.add(*both))
    return catalogue


def _items(block: Block, schema: Schema) -> list[pa.Array]:
    """The items in all histories of a block, and their categories: text [N]."""
    text = Text(block, _names(schema, OWN), schema.delimiter, Faults(block)).table
    items, categories = (text[name].combine_chunks() for name in ("history_items", "history_categories"))
    parallel = pc.fill_null(pc.equal(pc.count_substring(items, JOIN), pc.count_substring(categories, JOIN)), False)
    return [pc.split_pattern(column.filter(parallel), JOIN).flatten() for column in (items, categories)]


def _lengths(column: pa.ChunkedArray) -> np.ndarray:
    """The number of items in each text, int64 [rows]."""
    return pc.fill_null(pc.add(pc.count_substring(column, JOIN), 1), 0).to_numpy().astype(np.int64)


def _checked(text: Text, schema: Schema) -> pa.Table:
    """Typed rows; rows whose histories differ in length are rejected."""
    lists = _names(schema, LISTS)
    lengths = np.stack([_lengths(text.table[name]) for name in lists])
    text.reject_where(
        (lengths != lengths[0]).any(0),
        "histories of different lengths",
        lambda i: ", ".join(f"{name} {n}" for name, n in zip(lists, lengths[:, i])),
    )
    return text.typed(schema)

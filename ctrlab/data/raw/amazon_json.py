"""Converts Amazon's own review files, `reviews_<shop>.json` and `meta_<shop>.json`, one object per line, to DIN's rows
(see `events`).

A review has `reviewerID`, `asin` and `unixReviewTime`. An item's category is the last entry of the first list in its
`categories`. Old `meta` files hold Python literals instead of JSON; both are read.
"""

from __future__ import annotations

import ast
import functools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from ctrlab.data.raw.catalogue import Catalogue
from ctrlab.data.raw.events import Events
from ctrlab.data.raw.intake import Faults, Intake
from ctrlab.data.raw.lines import Block
from ctrlab.errors import BadData
from ctrlab.schema import Schema

NO_CATEGORY = "default_cat"  # the word in the original scripts


def tables(sources: Sequence[Path], intake: Intake, schema: Schema) -> Iterator[pa.Table]:
    meta = [source for source in sources if source.name.startswith("meta")]
    reviews = [source for source in sources if source not in meta]
    if not meta or not reviews:
        lacking = "meta_<shop>.json" if reviews else "reviews_<shop>.json"
        raise BadData(f"Review data needs reviews and descriptions of items; give {lacking} too, got {_names(sources)}.")
    categories = dict(row for rows in _rows(meta, _item, intake) for row in rows)
    with Events(intake.scratch(), intake.size, Catalogue(), schema) as events:
        for rows in _rows(reviews, _review, intake):
            intake.check()
            users, items, times = (list(column) for column in zip(*rows)) if rows else ([], [], [])
            named = [categories.get(item, NO_CATEGORY) for item in items]
            events.add(*(pa.array(column, pa.string()) for column in (users, items, named)), pa.array(times, pa.int64()))
    yield from events.rows()


def _names(paths: Sequence[Path]) -> str:
    return ", ".join(path.name for path in paths)


def _rows(paths: Sequence[Path], read: Callable[[dict], tuple], intake: Intake) -> Iterator[list[tuple]]:
    """Yields the results of `read` for each line's object, block by block."""
    blocks = (block for path in paths for block in intake.blocks(path))
    return intake.parsed(functools.partial(_parsed, read=read), blocks)


def _parsed(block: Block, read: Callable[[dict], tuple]) -> tuple[list[tuple], Faults]:
    """Applies `read` to each line's object; lines that it can't read are rejected."""
    faults, rows = Faults(block), []
    for index in range(len(block)):
        try:
            rows.append(read(_object(block.line(index))))
        except UnicodeError as error:
            faults.reject(np.array([index]), "not UTF-8", [str(error)])
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            faults.reject(np.array([index]), "neither JSON nor a Python literal", ["expected one object per line"])
        except (KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
            faults.reject(np.array([index]), "a field is missing or of another type", [f"{type(error).__name__} {error}"])
    return rows, faults


def _object(line: bytes) -> dict:
    text = line.decode()
    try:
        return json.loads(text)
    except ValueError:
        return ast.literal_eval(text)


def _item(thing: dict) -> tuple[str, str]:
    return _text(thing["asin"]), _text(thing["categories"][0][-1])


def _review(thing: dict) -> tuple[str, str, int]:
    time = thing["unixReviewTime"]
    if not isinstance(time, int) or not 0 <= time < 1 << 40:
        raise TypeError(f"unixReviewTime must be seconds since 1970; received {time!r}")
    return _text(thing["reviewerID"]), _text(thing["asin"]), time


def _text(value) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"expected a text; received {value!r}")
    value.encode()  # JSON can hold single surrogates, which UTF-8 can't encode
    return value

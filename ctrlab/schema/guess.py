"""Guesses what the columns of a table are, for `Schema.infer`. The rules are tried in order; the first one that fits decides:

    left out            one value in every row, or none at all; times, also as seconds since 1970, digits (20141021) and text, but
                        for whole numbers with an id's name; nested and binary columns; columns without a name, and
                        numbers of rows, such as the index that pandas writes; text or whole numbers with an id's name that
                        differ in each of many rows, such as the number of a request (but never the user)
    numeric             true and false
    categorical         text; whole numbers with an id's name (user, item_id, zipCode: see ID_NAMES), or with at most FEW distinct
                        values that come often, such as an hour or a kind
    numeric             other numbers. A long tail, its end over TAIL times as far from the lowest as the middle is, gets `log1p`
                        (for counts and prices); what does not lie in [-3, 3], `minmax`
    sequence            a list with words of a categorical column whose name it carries (item: item_history), or with many of
                        its words: its past. Whole numbers become categorical if a list holds mostly the same
    multi_hot           other lists of text or whole numbers
    numeric_list        lists of other numbers

There is a note for each column that is left out, each history, and text that seems to hold lists ("Action|Comedy").

A table of ids has the next of 1,000, 2,000, 5,000, 10,000, ... buckets above ten times its distinct words, or above four times
where that is over 100,000: so few words share a bucket, and words that come later have room.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ctrlab.errors import BadData, choose
from ctrlab.schema import histories
from ctrlab.schema.frames import NAMELESS, named, table
from ctrlab.schema.histories import sign_of_lists
from ctrlab.schema.times import form_of_time

NAMES = """
    ad advertiser app asin brand campaign cat cate category city code country device domain genre host id ids isbn item key
    location movie page pid place postcode postal product publisher query region sess session shop site sku song store uid user
    visitor zip zipcode
"""
ID_NAMES = frozenset(NAMES.split())
FEW, OFTEN = 32, 10
"""Whole numbers are names, not amounts, if there are at most FEW distinct ones, each in at least OFTEN rows on average."""
TAIL = 20
MANY_ROWS = 1_000
ROWS = 100
"""Whole numbers that count this many rows, or more, are numbers of rows, whatever their name."""
SEPARATORS = (";", "|", " ", "\x01")


def guess(source, labels: Sequence[str], user: str, soft: bool) -> tuple[list[dict], list[str]]:
    """Guesses the columns of `source`, for `Schema.infer`.

    Returns:
        the columns in the table's order, each as {"kind": ..., "name": ..., option: value}; notes on what was left out.
    """
    whole = table(source)
    if not labels:
        raise BadData(f"A schema has a label at least; name a column of {named(source)} with label=.")
    for name in (*labels, *filter(None, [user])):
        choose(f"column of {named(source)}", name, whole.column_names)
    if not len(whole):
        raise BadData(f"A schema is inferred from rows; {named(source)} has none.")
    columns, notes = [], []
    for name in whole.column_names:
        values = _decoded(whole[name])
        if name in labels:
            require_label(values, name, soft, named(source))
            columns.append({"kind": "label", "name": name} | ({"soft": True} if soft else {}))
        elif (why := _of_no_use(values, name, user)) is not None:
            notes.append(f"left out: {name}, {why}")
        else:
            columns.append(_column(values, name, user))
            if _is_text(values.type) and (sign := sign_of_lists(values)):
                cure = f"lists of the parts, such as pandas' str.split({sign!r}) makes, are features"
                notes.append(f"{name} has {sign!r} between parts of its words, taken for one word each; {cure}")
    if all(column["kind"] == "label" for column in columns):
        why = "; ".join(notes) or "no other"
        raise BadData(f"A model needs columns beside its labels; {named(source)} has none of use ({why}).")
    amounts = [c["name"] for c in columns if c["kind"] == "numeric" and _is_whole(_decoded(whole[c["name"]]))]
    notes += histories.find(
        columns,
        amounts,
        lambda name: _words([_decoded(whole[name])]),
        lambda name: pc.fill_null(pc.list_value_length(whole[name]), 0).combine_chunks(),
    )
    for column in columns:
        if column["kind"] in ("categorical", "multi_hot", "sequence"):
            shared = [c["name"] for c in columns if c.get("table", c["name"]) == column.get("table", column["name"])]
            column["buckets"] = buckets(len(_words([_decoded(whole[name]) for name in shared])))
    return columns, notes


def require_label(values: pa.ChunkedArray, name: str, soft: bool, where: str) -> None:
    """Raises BadData if a label is missing in a row, is not a number in its range, or is the same in all rows."""
    if not (_is_number(values.type) or pa.types.is_boolean(values.type)):
        raise BadData(f"A label is 0 or 1; column {name!r} of {where} is {values.type}: make it a number first.")
    if values.null_count:
        raise BadData(f"A label is there in each row; column {name!r} of {where} lacks {values.null_count} of {len(values)}.")
    found = values.cast(pa.float64()).to_numpy()
    bad = ~((found >= 0) & (found <= 1)) if soft else (found != 0) & (found != 1)
    if bad.any():
        row = int(np.argmax(bad))
        share = bool(0 <= found[row] <= 1)
        cure = "for shares say soft=True" if share else "make it 0 or 1 first, such as `stars >= 4`"
        rule = "a number in [0, 1]" if soft else "0 or 1"
        raise BadData(f"A label is {rule}; column {name!r} of {where} has {found[row]:g} in row {row}, counted from 0: {cure}.")
    if found.min() == found.max():
        raise BadData(f"A label that is the same in all rows teaches nothing; column {name!r} of {where} is always {found[0]:g}.")


def buckets(distinct: int) -> int:
    """The number of rows of a table for this number of distinct words.

    >>> [buckets(n) for n in (3, 101, 10_000, 60_000)]
    [1000, 2000, 100000, 500000]
    """
    wanted = distinct * 10 if distinct <= 10_000 else max(100_000, distinct * 4)
    return next(size for size in (first * 10**power for power in itertools.count(3) for first in (1, 2, 5)) if size >= wanted)


def _decoded(values: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Values in a type that Arrow's functions take. Dictionaries of values that are left out in any case are not decoded."""
    kind = values.type
    if pa.types.is_dictionary(kind) and (
        _is_number(kind.value_type)
        or _is_text(kind.value_type)
        or pa.types.is_boolean(kind.value_type)
        or pa.types.is_temporal(kind.value_type)
    ):
        values = values.cast(kind.value_type)
    return values.cast(pa.float64()) if pa.types.is_float16(values.type) else values


def _of_no_use(values: pa.ChunkedArray, name: str, user: str) -> str | None:
    kind = values.type
    if values.null_count == len(values):
        return "no value in any row"
    if pa.types.is_temporal(kind):
        return f"a time ({kind}); make numbers of it, such as the hour"
    if not (_is_number(kind) or _is_text(kind) or pa.types.is_boolean(kind) or _is_list(kind)):
        return f"of type {kind}"
    if _is_list(kind):
        return _of_no_use_lists(_entries(values), kind)
    as_id = (_is_whole(values) or _is_text(kind)) and _called_as_id(name)
    distinct = pc.count_distinct(values).as_py()
    if distinct == 1 and not values.null_count:
        return f"{values[0].as_py()!r} in every row".replace("\n", " ")
    if name != user and (why := _is_index(values, name, distinct)):
        return why
    if name != user and not as_id and not pa.types.is_boolean(kind) and (form := form_of_time(values)):
        return f"a time ({form}); make numbers of it, such as the hour"
    if distinct == len(values) >= MANY_ROWS and (as_id or _is_text(kind)) and name != user:
        return "another value in each row"
    return None


def _is_index(values: pa.ChunkedArray, name: str, distinct: int) -> str | None:
    """Why a column is the number of the row and no feature; None if it may be one."""
    nameless = NAMELESS.fullmatch(name)
    if distinct == len(values) and _is_whole(values):
        numbers = values.to_numpy()
        called = nameless or re.fullmatch(r"index|level_[0-9]+", name)
        if called or (len(numbers) >= ROWS and np.array_equal(numbers - numbers[0], np.arange(len(numbers)))):
            return "the number of the row; to_csv(index=False) of pandas writes none"
    return "it has no name; give it one to use it" if nameless else None


def _column(values: pa.ChunkedArray, name: str, user: str) -> dict:
    if _is_list(values.type):
        entries = _entries(values)
        if not _is_text(entries.type) and not _is_whole(entries):
            found = _transform(entries, name)
            if "default" in found:  # a list's default is text, as in a file
                found["default"] = repr(found["default"])
            return {"kind": "numeric_list", "name": name} | found
        return {"kind": "multi_hot", "name": name} | _separator(entries)
    if pa.types.is_boolean(values.type):
        return {"kind": "numeric", "name": name}
    if _is_text(values.type) or (name == user and _is_whole(values)):
        return {"kind": "categorical", "name": name}
    if _is_whole(values):
        distinct, rows = pc.count_distinct(values).as_py(), len(values) - values.null_count
        if _called_as_id(name) or (distinct <= FEW and rows >= OFTEN * distinct):
            return {"kind": "categorical", "name": name}
    return {"kind": "numeric", "name": name} | _transform(values, name)


def _of_no_use_lists(entries: pa.ChunkedArray, kind: pa.DataType) -> str | None:
    if entries.null_count:
        return "a list with entries that are missing"
    if not (_is_number(entries.type) or _is_text(entries.type)):
        return f"of type {kind}"
    if _is_text(entries.type) and pc.any(pc.equal(entries, "")).as_py():
        return "a list with entries that are empty"
    if _is_text(entries.type) and not _free(entries):
        return f"a list with words that hold {', '.join(map(repr, SEPARATORS))}, which would join them"
    return None if len(entries) else "no list with an entry"


def _called_as_id(name: str) -> bool:
    """Whether the last word of a name such as user_id, itemId or "zip code" is one of ID_NAMES."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).replace("_", " ").replace("-", " ").lower().split()
    return bool(words) and words[-1] in ID_NAMES


def _transform(values: pa.ChunkedArray, name: str) -> dict:
    numbers = values.drop_null().cast(pa.float64(), safe=False).to_numpy()
    if len(odd := numbers[~np.isfinite(numbers)]):
        raise BadData(f"Numbers are finite, and what is missing is null; column {name!r} has {odd[0]}.")
    low, middle, high = float(numbers.min()), float(np.median(numbers)), float(numbers.max())
    floor = min(low, 0.0)
    if high - floor > TAIL * max(1.0, middle - floor):
        return {"transform": "log1p"} | ({"low": floor} if floor else {})
    if (low >= -3 and high <= 3) or low == high:
        return {}
    missing = {} if low <= 0 <= high else {"default": middle}
    return {"transform": "minmax", "low": low, "high": high} | missing


def _separator(words: pa.ChunkedArray) -> dict:
    """The first separator that occurs in none of the words; ";" is the default."""
    free = _free(words) if _is_text(words.type) else SEPARATORS
    return {} if free[0] == ";" else {"separator": free[0]}


def _free(words: pa.ChunkedArray) -> list[str]:
    """The separators that occur in none of the words."""
    return [sign for sign in SEPARATORS if not pc.any(pc.match_substring(words, sign)).as_py()]


def _words(columns: list[pa.ChunkedArray]) -> pa.Array:
    """The distinct words of columns, or of lists, as text; without missing and empty ones."""
    parts = [(_entries(values) if _is_list(values.type) else values).unique().drop_null() for values in columns]
    texts = [part.cast(pa.int64()) if pa.types.is_floating(part.type) else part for part in parts]
    words = pa.concat_arrays([text.cast(pa.string()) for text in texts]).unique()
    return words.filter(pc.not_equal(words, ""))


def _entries(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return _decoded(pc.list_flatten(values))


def _is_whole(values: pa.ChunkedArray) -> bool:
    """Whether all values are whole numbers. Floats count if pandas made them from whole numbers because some are missing."""
    if pa.types.is_integer(values.type):
        return True
    if not pa.types.is_floating(values.type):
        return False
    numbers = values.drop_null().to_numpy()
    return bool(np.all(np.isfinite(numbers)) and np.all(numbers == np.floor(numbers)) and np.all(np.abs(numbers) < 2.0**53))


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)

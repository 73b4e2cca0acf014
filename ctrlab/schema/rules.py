"""The rules for columns and schemas. Each function raises BadSchema, with one sentence, if its rule is broken; `ctrlab.schema`
calls them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import numpy as np

from ctrlab.errors import BadSchema, choose, hint
from ctrlab.schema import words as spelled

IN_NUMBERS = "0123456789+-.eE"
"""Characters that a number may contain, so none of them can separate numbers."""


def name(column) -> None:
    if not isinstance(column.name, str) or not column.name:
        raise BadSchema(f"A column has a name, a text that is not empty; received {column.name!r}.")
    if (hasattr(column, "separator") and "/" in column.name) or column.name.endswith(("/values", "/row_splits")):
        raise BadSchema(
            f"Requests name the parts of a list by name/values and name/row_splits, so the name of a list has no slash and no "
            f"other ends so; received {column.name!r}: give it another."
        )


def refers(schema, what: str, name, columns: Iterable, kind: str) -> None:
    """Requires that a reference names one of `columns`, the columns of the right kind."""
    names = [column.name for column in columns]
    if name not in names:
        raise BadSchema(f"{what} must name {kind}; schema {schema.name!r} has none called {name!r}.{hint(name, names)}")


def roles(schema) -> None:
    """Requires that roles are given only to features of a served model, and at most one to each."""
    features = [column for column in schema.features if not getattr(column, "negative_of", "")]
    for what in ("user_columns", "context_columns"):
        for name in getattr(schema, what):
            refers(schema, f"`{what}`", name, features, "a feature")
    users = {*schema.user_columns, *(column.name for column in features if getattr(column, "of", "")), schema.user}
    if both := sorted(users & {*schema.context_columns}):
        raise BadSchema(
            f"A column describes the user or the context, and histories and `user` are the user's; schema {schema.name!r} has "
            f"{both[0]!r} for both."
        )


def several(schema, what: str, values) -> None:
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise BadSchema(f"`{what}` of a schema is a tuple; schema {schema.name!r} has {values!r}.")


def number(column, what: str, value) -> None:
    """Requires a finite number in the range of float32; returns it as Python's `float` or `int`."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or (isinstance(value, float) and not math.isfinite(value)):
        raise BadSchema(f"`{what}` must be a finite number; column {column.name!r} has {value!r}.")
    if not _in_float32(value):
        raise BadSchema(f"`{what}` must be a number of float32, at most 3.4e38; column {column.name!r} has {value!r}.")


def _in_float32(value) -> bool:
    return abs(value) <= float(np.finfo(np.float32).max)


def flag(column, what: str, value) -> None:
    if not isinstance(value, bool):
        raise BadSchema(f"`{what}` is True or False; column {column.name!r} has {value!r}.")


def whole(column, what: str, value, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadSchema(f"`{what}` must be a whole number from {least} to {most}; column {column.name!r} has {value!r}.")


def number_list(column, what: str, text) -> None:
    """Requires finite numbers, joined by the column's separator."""
    try:
        good = all(_in_float32(float(part)) for part in text.split(column.separator))
    except (AttributeError, ValueError):
        good = False
    if not good:
        joined = f"1{column.separator}2"
        raise BadSchema(f"`{what}` must be text of finite numbers such as {joined!r}; column {column.name!r} has {text!r}.")


def transform(column, known) -> None:
    choose(f"transform of column {column.name!r}", column.transform, known)
    number(column, "low", column.low)
    number(column, "high", column.high)
    if column.transform == "minmax" and not column.low < column.high:
        raise BadSchema(
            f"`minmax` divides by high - low, so low must be below high; column {column.name!r} has {column.low} and "
            f"{column.high}."
        )
    width = column.high - column.low
    if column.transform == "minmax" and not (float(np.finfo(np.float32).tiny) <= width and _in_float32(width)):
        raise BadSchema(
            f"`minmax` divides by high - low in float32, from 1.2e-38 to 3.4e38; column {column.name!r} has {column.low} and "
            f"{column.high}: measure it in another unit."
        )


def separator(column) -> None:
    """Requires a separator that can't be part of an entry or end a line."""
    sign = column.separator
    if not isinstance(sign, str) or not sign or "\n" in sign or "\r" in sign:
        raise BadSchema(f"A separator is text without line ends, at least one character; column {column.name!r} has {sign!r}.")
    if column.kind == "numeric_list" and set(sign) & set(IN_NUMBERS):
        raise BadSchema(f"A separator of numbers can't be part of one; column {column.name!r} has {sign!r}.")


def vocabulary(column) -> None:
    """Requires texts of distinct words, which it sets as a tuple."""
    words = column.vocabulary
    words = words if isinstance(words, str | bytes) or not isinstance(words, Iterable) else tuple(words)
    if not isinstance(words, tuple) or not all(isinstance(word, str) for word in words):
        raise BadSchema(f"A vocabulary is a tuple of texts; column {column.name!r} has {words!r:.100}.")
    texts, words = words, tuple(spelled.word(str(word)) for word in words)
    object.__setattr__(column, "vocabulary", words)
    if twice := [word for word, count in Counter(words).items() if count > 1]:
        same = [str(text) for text, word in zip(texts, words) if word == twice[0]]
        said = f"{same[0]!r} more than once" if len({*same}) == 1 else f"{' and '.join(map(repr, same))}, which are one word"
        raise BadSchema(f"The words of a vocabulary differ; that of column {column.name!r} has {said}: leave one out.")
    if (column.encoding == "vocabulary") != bool(words):
        has = f"has the encoding {column.encoding!r} and {len(words)} words"
        raise BadSchema(f"A vocabulary and encoding='vocabulary' go together; column {column.name!r} {has}.")


def default_word(column) -> None:
    """Requires a valid default, and sets it: the word or number in place of a missing one; "" for none."""
    word = column.default
    if not isinstance(word, str):
        raise BadSchema(f"`default` of an id column is text; column {column.name!r} has {word!r}.")
    object.__setattr__(column, "default", word := spelled.word(word))
    if word and column.encoding == "vocabulary" and word not in column.vocabulary:
        raise BadSchema(f"`default` must be a word of the vocabulary, or '' for none; column {column.name!r} has {word!r}.")
    in_table = word.isascii() and word.isdecimal() and int(word) < column.buckets
    if word and not in_table and (column.encoding == "identity" or column.encoded):
        raise BadSchema(f"`default` must be an id in [0, {column.buckets}), or '' for none; column {column.name!r} has {word!r}.")


def tables(schema) -> None:
    """Requires that columns of one table agree, and that a history has the table of the column to which it belongs."""
    first: dict = {}
    for column in schema.id_columns:
        other = first.setdefault(column.table, column)
        if (other.buckets, other.encoding, other.vocabulary) != (column.buckets, column.encoding, column.vocabulary):
            differ = [f"{c.buckets} {c.encoding} ({c.name})" for c in (other, column)]
            raise BadSchema(
                f"Columns of one table must agree on buckets, encoding and vocabulary; table {column.table!r} of schema "
                f"{schema.name!r} has {' and '.join(differ)}."
            )
    for column in schema.sequences:
        for other in filter(None, (column.of, column.negative_of)):
            if (table := schema[other].table) != column.table:
                raise BadSchema(
                    f"A sequence shares the table of the column that it belongs to; in schema {schema.name!r}, {column.name!r} "
                    f"has the table {column.table!r} and {other!r} has {table!r}: give {column.name!r} table={table!r}."
                )


def delimiter(schema) -> None:
    sign = schema.delimiter
    if not isinstance(sign, str) or len(sign.encode()) != 1 or sign in "\n\r" or sign in IN_NUMBERS:
        raise BadSchema(
            f"A delimiter is one ASCII character, no line end and none that numbers have; schema {schema.name!r} has {sign!r}."
        )
    for column in schema.columns:
        if sign in getattr(column, "separator", ""):
            raise BadSchema(
                f"A separator has no delimiter in it; column {column.name!r} of schema {schema.name!r} joins entries by "
                f"{column.separator!r}, and {sign!r} stands between columns."
            )

"""A schema as the Python code that makes it, to be edited."""

from __future__ import annotations

import dataclasses


def code(schema) -> str:
    """The code: imports, then one line per column with the options that differ from the defaults. The schema's notes are
    comments.
    """
    kinds = sorted({"Schema", *(type(column).__name__ for column in schema.columns)})
    columns = [f"        {_call(column)}," for column in schema.columns]
    notes = [f"        # {''.join(sign if sign.isprintable() else ' ' for sign in note)}" for note in schema.notes]
    options = [f"    {name}={value}," for name, value in _options(schema)]
    lines = ["schema = Schema(", f"    {_text(schema.name)},", "    (", *columns, *notes, "    ),", *options, ")"]
    return f"from ctrlab.schema import {', '.join(kinds)}\n\n" + "\n".join(lines)


def _call(column) -> str:
    arguments = [_text(column.name), *(f"{name}={value}" for name, value in _options(column))]
    return f"{type(column).__name__}({', '.join(arguments)})"


def _options(thing) -> list[tuple[str, str]]:
    """The fields that differ from their defaults, in order, except the first fields and those that follow from others."""
    found = []
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name)
        follows = (field.name == "table" and value == thing.name) or (
            field.name == "buckets" and getattr(thing, "encoding", "") == "vocabulary"
        )
        has_default = field.init and field.compare and field.default is not dataclasses.MISSING
        if has_default and not follows and value != field.default:
            found.append((field.name, _text(value)))
    return found


def _text(value) -> str:
    """Like `repr`, but with texts in double quotes if they need no escapes."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    text = repr(value)
    return f'"{text[1:-1]}"' if isinstance(value, str) and text[0] == "'" and '"' not in text else text

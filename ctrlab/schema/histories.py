"""Finds lists that hold the past of a column, and text that holds lists, for `Schema.infer`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc

SHARED, SOME = 0.1, 32
"""The least fraction of a list's words that must be words of a column for the list to be its history; and, unless the list
carries the column's name, how many they must exceed."""
ALIKE, MANY = 0.5, 200
"""Small numbers are the same by chance, so of numbers the words of both must be the same to this fraction, and exceed MANY."""
SIGNS = ("\x01", "\x02", "|", ";", ",", " ")
NUMBERED = r"^[A-Za-z_]{0,3}[0-9]+$"
"""Ids such as N55189, which stand alone or in a list."""


def find(
    columns: list[dict], amounts: Iterable[str], words: Callable[[str], pa.Array], lengths: Callable[[str], pa.Array]
) -> list[str]:
    """Turns lists that hold the past of a column into sequences. Columns of numbers with such a list become ids.

    Models attend to lists with as many events in each row, and to one of each column. The longest lists are these; others become
    sequences without `of`, in the same table.

    Args:
        amounts: numeric columns of whole numbers.
        words: the distinct words of a column by its name; lengths: the numbers of entries in each row, of a list.
    Returns:
        a note for each guess.
    """
    by_name = {column["name"]: column for column in columns}
    ids = {c["name"]: words(c["name"]) for c in columns if c["kind"] == "categorical"}
    numbers = {name: words(name) for name in amounts}
    notes, found = [], []
    for column in columns:
        name = column["name"]
        if column["kind"] != "multi_hot" or not (of := _target(name, words(name), ids, numbers)):
            continue
        if of in numbers:
            ids[of] = numbers.pop(of)
            by_name[of].clear()
            by_name[of] |= {"kind": "categorical", "name": of}
            notes.append(f"{of} is taken for ids, because {name} holds its numbers")
        column |= {"kind": "sequence", "table": of}
        found.append(column)
    size = {column["name"]: lengths(column["name"]) for column in found}
    first: dict | None = None
    taken: dict[str, str] = {}
    for column in sorted(found, key=lambda column: -pc.sum(size[column["name"]]).as_py()):
        name, of = column["name"], column["table"]
        first = first or column
        if of in taken:
            notes.append(f"{name} holds words of {of}, too, whose history is {taken[of]}: models take the mean of its words")
        elif not size[name].equals(size[first["name"]]):
            notes.append(f"{name} holds words of {of}, in other numbers than {first['name']}: models take the mean of its words")
        else:
            taken[of] = name
            column["of"] = of
            notes.append(f"{name} is taken for the history of {of}, oldest first")
    return notes


def _target(name: str, entries: pa.Array, ids: dict[str, pa.Array], numbers: dict[str, pa.Array]) -> str | None:
    """The column whose past a list with these words is; None if there is none."""
    digits = pc.all(pc.match_substring_regex(entries, "^-?[0-9]+$")).as_py()
    best, target = (False, 0, 0.0), None
    for of, words in {**ids, **numbers}.items():
        known = pc.sum(pc.is_in(entries, words).cast(pa.int64())).as_py() or 0
        share, alike = known / max(1, len(entries)), known / max(1, len(entries) + len(words) - known)
        named = of.lower() in name.lower() or of.lower().removesuffix("_id") in name.lower()
        if named and of in ids:
            good = share >= SHARED
        elif digits:
            good = alike >= ALIKE and known > (SOME if named else MANY)
        else:
            good = share >= SHARED and known > SOME
        if good and (rank := (named, len(of) if named else 0, alike)) > best:
            best, target = rank, of
    return target


def sign_of_lists(texts: pa.ChunkedArray) -> str | None:
    """What stands between the parts of texts that are lists, as in "Action|Comedy" and "N55189 N42782"; None for words."""
    whole = texts.drop_null().unique()
    for sign in SIGNS:
        parts = pc.list_flatten(pc.split_pattern(whole, sign))
        if len(parts) == len(whole) or pc.any(pc.equal(parts, "")).as_py():
            continue
        distinct = parts.unique()
        again = len(distinct) * (1 if sign in "|;" else 4) < len(whole)  # names of two words come again, too
        if not sign.isprintable() or again or pc.all(pc.match_substring_regex(distinct, NUMBERED)).as_py():
            return sign
    return None

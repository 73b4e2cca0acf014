"""The definition of `ctrlab.ops.parsing.ids`, in Python."""

from __future__ import annotations

from collections.abc import Sequence as Entries

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.ops.references.arrays import Ragged
from ctrlab.ops.references.fingerprint import fingerprint64
from ctrlab.ops.references.raw import agree, as_bytes, cells, is_list
from ctrlab.profiling.work import Work
from ctrlab.schema import Categorical, IdColumn, MultiHot, Sequence


def reference(columns: Entries[IdColumn], values: Entries) -> list[list]:
    """The definition in Python: for each column a list of B ids, or of B lists of ids.

    Raises:
        CtrlabError: an identity column holds something other than a whole number, or one out of range.

    >>> reference([MultiHot("tags", encoding="vocabulary", vocabulary=("a", "b"))], [["b;a;b", "", "c;;a"]])
    [[[1, 0, 1], [], [-1, 0]]]
    """
    agree(columns, values)
    return [_reference_column(column, value) for column, value in zip(columns, values)]


def _reference_column(column: IdColumn, values) -> list:
    ids = []
    for row, cell in enumerate(cells(values)):
        if not is_list(column):
            ids.append(_reference_id(column, cell, row))
            continue
        parts = cell if isinstance(cell, list) else [p for p in as_bytes(cell).split(column.separator.encode()) if p]
        if isinstance(column, Sequence):
            parts = parts[-column.max_length :]
        ids.append([_reference_id(column, part, row) for part in parts])
    return ids


def _reference_id(column: IdColumn, value, row: int) -> int:
    if isinstance(value, int) and column.encoding != "identity":
        return value
    if column.encoding == "hash":
        return fingerprint64(as_bytes(value)) % column.buckets
    if column.encoding == "vocabulary":
        words = [word.encode() for word in column.vocabulary]
        return words.index(as_bytes(value)) if as_bytes(value) in words else -1
    try:
        number = int(value)
        if 0 <= number < column.buckets:
            return number
    except ValueError:
        pass
    raise CtrlabError(
        f"Ids of column {column.name} must be whole numbers in [0, {column.buckets}); received {value!r} in row {row}."
    )


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    words = ("tea", "night", "lunch")
    drawn = [";".join(map(str, rng.integers(0, 2**40, int(n)))).encode() for n in rng.integers(0, 7, 9)]
    lengths = [b"x" * n for n in (0, 1, 3, 4, 7, 8, 16, 17, 32, 33, 64, 65, 128, 129, 300)]
    lists, last = MultiHot("list", buckets=1_000), Sequence("last", max_length=2, buckets=77)
    known = MultiHot("known", encoding="vocabulary", vocabulary=words)
    numbers = Sequence("numbers", encoding="identity", buckets=9, max_length=2)
    return {
        "random": ([lists, last], [np.array(drawn), np.array(drawn[::-1])]),
        "words of every length": ([Categorical("word", buckets=1 << 40)], [np.array(lengths)]),
        "empty parts": ([lists, last, known], [np.array([b"", b";", b";;a;;b;;", b" ;a"])] * 3),
        "unknown words": (
            [known, Categorical("one", encoding="vocabulary", vocabulary=words)],
            [np.array([b"tea;soup", b"night"])] * 2,
        ),
        "numbers in text": ([numbers], [np.array([b"1;2;;3", b"8", b""])]),
        "lists that are cut already": (
            [last, numbers],
            [Ragged.of([["a", "b", "c"], []], bytes), Ragged.of([[1, 2, 8], [0]], np.int64)],
        ),
        "ids made offline": ([lists, Categorical("made")], [Ragged.of([[5, 6], []], np.int64), np.array([7, 3])]),
        "no rows": ([lists, numbers], [np.zeros(0, "S1"), np.zeros(0, "S1")]),
    }


def work(text_bytes: float, ids: float) -> Work:
    """Each byte of text is read, each id is written."""
    return Work(bytes=text_bytes + 8.0 * ids)

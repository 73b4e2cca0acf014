"""The definition of `ctrlab.ops.parsing.numbers`, in NumPy, float64."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.ops.references.arrays import Ragged, normal
from ctrlab.ops.references.raw import agree, as_bytes, cells
from ctrlab.profiling.work import Work
from ctrlab.schema import Numeric, NumericList

_NUMBER = re.compile(
    rb"[ \t\n\v\f\r]*(?P<sign>[+-]?)(?:(?P<decimal>(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?)"
    rb"|(?P<hex>0x(?:[\da-f]+\.?[\da-f]*|\.[\da-f]+)(?:p[+-]?\d+)?)|(?P<nan>nan(?:\(\w*\))?))[ \t\n\v\f\r]*",
    re.IGNORECASE,
)


def reference(columns: Sequence[Numeric | NumericList], values: Sequence) -> np.ndarray:
    """The definition in NumPy, float64 [B, C].

    Raises:
        CtrlabError: a part of a list is not a number.

    >>> reference([NumericList("price"), NumericList("hours", transform="minmax", high=4.0)], [["1;2", ""], ["3", "2;;4"]])
    array([[1.5 , 0.75],
           [0.  , 0.75]])
    """
    agree(columns, values)
    return np.stack([_reference_column(column, value) for column, value in zip(columns, values)], axis=1)


def _reference_column(column: Numeric | NumericList, values) -> np.ndarray:
    x = np.array([_reference_cell(column, cell, row) for row, cell in enumerate(cells(values))], np.float64)
    if column.transform == "log1p":
        return np.log1p(np.maximum(x - column.low, 0))
    return (x - column.low) / (column.high - column.low) if column.transform == "minmax" else x


def _reference_cell(column: Numeric | NumericList, cell, row: int) -> float:
    if not isinstance(column, NumericList):
        return float(cell)
    if isinstance(cell, str | bytes):
        cell = [number(part, column.name, row) for part in as_bytes(cell).split(column.separator.encode()) if part]
    return float(np.mean(np.asarray(cell, np.float64))) if len(cell) else 0.0


def number(text: bytes, name: str = "", row: int = 0) -> float:
    """Parses a number in text.

    >>> number(b" -0x10 "), number(b"1e3")
    (-16.0, 1000.0)
    """
    found = _NUMBER.fullmatch(text)
    if not found:
        raise CtrlabError(f"The parts of column {name} must be numbers; received {text!r} in row {row}.")
    value = float(found["decimal"]) if found["decimal"] else float.fromhex(found["hex"].decode()) if found["hex"] else np.nan
    return -value if found["sign"] == b"-" else value


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    plain, cut = NumericList("plain"), NumericList("cut", separator="|")
    transformed = [Numeric("log", transform="log1p", low=-9.0), NumericList("share", transform="minmax", low=-2.0, high=5.0)]
    drawn = [b"|".join(b"%.3f" % x for x in rng.uniform(-50, 50, n)) for n in (4, 1, 2, 25)]
    lists = Ragged(normal(rng, 6), np.array([0, 2, 2, 5, 6]))
    written = [b" -0x10 ;1e3", b"+.5;0X1p-3", b"Infinity", b"1;;2;"]
    return {
        "random": ([cut], [np.array(drawn)]),
        "numbers and lists of them": ([Numeric("x"), *transformed], [normal(rng, 4), normal(rng, 4), lists]),
        "every way to write a number": ([plain], [np.array(written)]),
        "empty lists": ([plain, plain], [np.array([b"", b";"]), Ragged.of([[], []], np.float64)]),
        "no rows": ([plain, Numeric("x")], [np.zeros(0, "S1"), np.zeros(0)]),
    }


def work(text_bytes: float, numbers: float) -> Work:
    """Each byte of text is read, each number is written."""
    return Work(bytes=text_bytes + 4.0 * numbers)

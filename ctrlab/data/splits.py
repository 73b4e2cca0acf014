"""Splits a table into rows to train on and rows that are held out."""

from __future__ import annotations

import numbers

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ctrlab.errors import BadData, CtrlabError, choose
from ctrlab.schema.frames import named, table


def split(source, fraction: float = 0.2, by: str | None = None, *, seed: int = 0) -> tuple[pa.Table, pa.Table]:
    """Returns the rows to train on and the held-out rows, each in the order of the table.

    Args:
        source: as in `ctrlab.data.table`.
        fraction: share of the rows that is held out, above 0 and below 1, rounded to whole rows.
        by: a column of times, of numbers, or of text that is ISO 8601 times or numbers, with a value in each row: the latest rows
            are held out. Rows with the same time stay together, so a few more rows than `fraction` may be held out. None: the
            rows are drawn at random.
        seed: seed of the random draw.
    Raises:
        BadData: a part would have no rows, `by` lacks values, or its text is no time. UnknownName: no such column. CtrlabError:
            `fraction` is not above 0 and below 1, or the seed is not a whole number from 0.

    >>> train, test = split({"time": [3, 1, 2, 2], "clicked": [0, 1, 0, 1]}, 0.25, by="time")
    >>> test["time"].to_pylist()
    [3]
    """
    if not isinstance(seed, numbers.Integral) or seed < 0:
        raise CtrlabError(f"The seed of a split is a whole number from 0; received {seed!r}.")
    whole = table(source)
    rows, where = len(whole), named(source)
    count = held_out_rows(rows, fraction, where)
    if by is None:
        held_out = np.zeros(rows, bool)
        held_out[np.random.default_rng(seed).permutation(rows)[:count]] = True
    else:
        held_out = _latest(whole[choose(f"column of {where}", by, whole.column_names)], count, by, where)
        if held_out.all():
            raise BadData(f"Rows of one {by!r} stay together; so many of {where} have the same that none is left to train on.")
    return whole.filter(pa.array(~held_out)), whole.filter(pa.array(held_out))


def held_out_rows(rows: int, fraction: float, where: str) -> int:
    """The number of held-out rows, if a fraction of `rows` is held out.

    Raises:
        CtrlabError: the fraction is not above 0 and below 1. BadData: a part would have no rows.
    """
    if not isinstance(fraction, numbers.Real) or not 0 < fraction < 1:
        raise CtrlabError(f"The fraction that is held out is a number above 0 and below 1; received {fraction!r}.")
    count = round(fraction * rows)
    if not 0 < count < rows:
        raise BadData(f"Both parts of a split have rows; of the {rows} of {where}, {fraction:g} makes {count}.")
    return count


def _latest(times: pa.ChunkedArray, count: int, by: str, where: str) -> np.ndarray:
    """Marks the `count` latest rows, and all rows of the earliest time among them: bool [n]."""
    if pa.types.is_dictionary(times.type):
        times = times.cast(times.type.value_type)
    if pa.types.is_float16(times.type):
        times = times.cast(pa.float32())
    if pa.types.is_string(times.type) or pa.types.is_large_string(times.type) or pa.types.is_string_view(times.type):
        times = _parsed(times, by, where)
    if times.null_count or (pa.types.is_floating(times.type) and pc.any(pc.is_nan(times)).as_py()):
        raise BadData(f"A split by time needs a value in each row; column {by!r} of {where} lacks some.")
    odd = BadData(f"A split is by times, numbers or text; column {by!r} of {where} is {times.type}.")
    if pa.types.is_binary(times.type) or pa.types.is_large_binary(times.type) or pa.types.is_fixed_size_binary(times.type):
        raise odd
    try:
        order = pc.sort_indices(times)
        first = times[order[len(times) - count].as_py()]
        return pc.greater_equal(times, first).to_numpy()
    except pa.ArrowException:
        raise odd from None


def _parsed(times: pa.ChunkedArray, by: str, where: str) -> pa.ChunkedArray:
    """The times or numbers that a column of text stands for. As text, the ninth of a month would come after the tenth."""
    kinds = [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("ns", "UTC")]
    if pc.all(pc.match_substring_regex(times, r"^[+-]?(0|[1-9][0-9]*)(\.[0-9]+)?$"), min_count=0).as_py():  # 01122026 is a date
        kinds = [pa.decimal256(76, 20)]
    for kind in kinds:
        try:
            return times.cast(kind)
        except pa.ArrowInvalid:
            continue
    shown = ", ".join(repr(text) for text in times.unique()[:2].to_pylist())
    raise BadData(
        f"A split by text needs times such as 2019-11-09 17:05:00, all of one form, or numbers; column {by!r} of {where} begins "
        f"with {shown}: make times of them first, as pandas.to_datetime does."
    )

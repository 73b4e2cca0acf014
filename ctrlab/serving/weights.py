"""Writes the weights of a version, and the updates that follow it, as files of records, which native/serving/weights_file.h
describes.

Tables are written in parts, so a table may be larger than memory. Each of several workers writes such a file for its shard: see
`ctrlab.serving.merging`.
"""

from __future__ import annotations

import itertools
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ctrlab.embedding.table.cut import Cut
from ctrlab.errors import CtrlabError
from ctrlab.serving.record_file import record_file
from ctrlab.serving.rows import Format, pack
from ctrlab.training.changes import Changed
from ctrlab.whole_batch import WHOLE, Shard

FORMAT = 1
BEGIN, ROWS, RUN, DENSE, END, REMOVED = range(6)
HEAD = struct.Struct("<iiqq")
PART_BYTES = 4 << 20  # of a record


@dataclass(frozen=True)
class Moment:
    """The moment that weights come from.

    Attributes:
        step: step of the training.
        update: number of the version's update, from 1; 0: the version itself.
        micros: when they were read from the model, in microseconds since 1970.
    """

    step: int = 0
    update: int = 0
    micros: int = 0

    @classmethod
    def now(cls, step: int, update: int = 0) -> Moment:
        return cls(step, update, time.time_ns() // 1000)


def write_weights(
    path: Path,
    bundle: str,
    moment: Moment,
    fixed: Sequence,
    growing: Iterable[tuple[Cut, bool]],
    dense: Sequence[np.ndarray],
    formats: Sequence[Format],
    shard: Shard = WHOLE,
) -> int:
    """Writes all weights of a version; returns the file's bytes. Tables are numbered in one order, fixed ones first.

    Args:
        bundle: the name of the weights in the graph.
        fixed: float32 [V, D] each, arrays or variables.
        growing: for each variable a cut of everything, and whether a server keeps only part of the rows in memory.
        formats: format of each table's rows.
        shard: the shard that the tables hold.
    Raises:
        OSError: the disk refused. CtrlabError: a weight is not finite, or too large for its table's format.
    """
    runs = (record for t, table in enumerate(fixed) for record in _runs(t, table, formats[t], shard))
    rows = (record for t, (cut, counted) in enumerate(growing, len(fixed)) for record in _rows(t, cut, counted, formats[t]))
    return write_records(path, bundle, moment, itertools.chain(runs, rows, _dense(dense)))


def write_update(
    path: Path,
    bundle: str,
    moment: Moment,
    fixed: Sequence[Changed],
    growing: Iterable[tuple[Cut, bool]],
    dense: Sequence[np.ndarray],
    formats: Sequence[Format],
    shard: Shard = WHOLE,
) -> int:
    """Writes the changes since the version, or since the previous update; otherwise like `write_weights`."""
    changed = (record for t, table in enumerate(fixed) for record in _changed(t, table, formats[t], shard))
    rows = (record for t, (cut, counted) in enumerate(growing, len(fixed)) for record in _rows(t, cut, counted, formats[t]))
    return write_records(path, bundle, moment, itertools.chain(changed, rows, _dense(dense)))


def write_records(path: Path, bundle: str, moment: Moment, records: Iterable[bytes]) -> int:
    """Writes a file with these records between its first and its last record; returns its size in bytes."""
    with record_file(path) as file:
        begin = moment.micros.to_bytes(8, "little") + bundle.encode()
        file.write(HEAD.pack(BEGIN, FORMAT, moment.update, moment.step) + begin)
        count = 1
        for record in records:
            file.write(record)
            count += 1
        file.write(record_of(END, 0, 0, count))
    return Path(path).stat().st_size


def _runs(t: int, table, format: Format, shard: Shard) -> Iterator[bytes]:
    rows, dim = table.shape
    step = _rows_a_part(4 * dim * shard.count)
    for first in range(0, rows, step):
        values = np.asarray(table[first : first + step])
        yield record_of(RUN, t, first, len(values), _packed(t, values, format))


def _changed(t: int, changed: Changed, format: Format, shard: Shard) -> Iterator[bytes]:
    step = _rows_a_part(8 + 4 * changed.rows.shape[1])
    for first in range(0, len(changed.ids), step):
        ids = changed.ids[first : first + step] * shard.count + shard.index
        yield record_of(ROWS, t, 0, len(ids), ids, _packed(t, changed.rows[first : first + step], format))


def _rows(t: int, cut: Cut, counted: bool, format: Format) -> Iterator[bytes]:
    for part in cut.parts(_rows_a_part(16 + 4 * cut.dim)):
        step = _rows_a_part(8)
        for first in range(0, len(part.removed), step):
            keys = part.removed[first : first + step]
            yield record_of(REMOVED, t, 0, len(keys), keys)
        frequencies = [part.frequencies] if counted else []
        yield record_of(ROWS, t, 0, len(part.keys), part.keys, *frequencies, _packed(t, part.values, format))


def _dense(dense: Sequence[np.ndarray]) -> Iterator[bytes]:
    for d, array in enumerate(dense):
        data = np.ascontiguousarray(finite(array, f"dense tensor {d}")).reshape(-1).view(np.uint8)
        for first in range(0, data.size, PART_BYTES):
            part = data[first : first + PART_BYTES]
            yield record_of(DENSE, d, first, part.size, part)


def finite(values: np.ndarray, where: str) -> np.ndarray:
    """Returns the values after a check. A server's answers would hide a NaN, because TensorFlow's ReLU turns it into 0.

    Raises:
        CtrlabError: a value is not finite.
    """
    if not np.issubdtype(values.dtype, np.integer) and not np.isfinite(values).all():
        raise CtrlabError(
            f"A model for serving has finite weights; {where} has others, so its training diverged: take an earlier checkpoint."
        )
    return values


def _packed(t: int, values: np.ndarray, format: Format) -> np.ndarray:
    return pack(finite(values, f"table {t}"), format)


def _rows_a_part(bytes_a_row: int) -> int:
    return max(1, PART_BYTES // bytes_a_row)


def record_of(kind: int, index: int, first: int, count: int, *arrays: np.ndarray) -> bytes:
    return b"".join([HEAD.pack(kind, index, first, count), *(np.ascontiguousarray(array).tobytes() for array in arrays)])

"""Merges the weights files of several workers, each with its shard, into one file of a version or of an update.

    table of V rows        worker w has the rows w, w + W, w + 2 W, ...: a version has them in turn
    any other record       stays as it is: keys are of one worker each, and one worker alone has written the dense tensors

Records are read one after the other, so the tables may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.serving.record_file import records_in
from ctrlab.serving.weights import BEGIN, END, HEAD, RUN, Moment, record_of, write_records


def merge_weights(parts: Sequence[Path], path: Path, bundle: str, moment: Moment) -> int:
    """Writes the file of all workers' parts, in their order; returns its bytes.

    Raises:
        OSError: the disk refused, or a part is damaged. CtrlabError: a part comes from another step, or from other tables.
    """
    return write_records(path, bundle, moment, _merged([_Part(each, moment) for each in parts]))


class _Part:
    """A worker's file, from its second record on. `head` is the head of the next record: (kind, index, first, count)."""

    def __init__(self, path: Path, moment: Moment):
        self._path, self._records = path, records_in(path)
        self._advance()
        if (found := self.head[3]) != moment.step or self.head[0] != BEGIN:
            raise CtrlabError(f"The parts of a publication are of one step; {path} is of step {found}, not of {moment.step}.")
        self._advance()

    def _advance(self) -> None:
        self._record = next(self._records, None)
        if self._record is None:
            raise CtrlabError(f"The part of a worker ends with a record that says so; {self._path} has been cut.")
        self.head = HEAD.unpack_from(self._record)

    def take(self) -> bytes:
        """Returns the next record, which must not be the last one."""
        record = self._record
        self._advance()
        return record


def _merged(parts: Sequence[_Part]) -> Iterator[bytes]:
    while runs := [part.head[1:3] for part in parts if part.head[0] == RUN]:
        t, first = min(runs)
        records = [part.take() if part.head[:3] == (RUN, t, first) else b"" for part in parts]
        yield _in_turn(t, first * len(parts), records)
    for part in parts:
        while part.head[0] != END:
            yield part.take()


def _in_turn(t: int, first: int, records: Sequence[bytes]) -> bytes:
    """Merges the next records of rows that workers hold in turn into one. At the end of a table the last workers may have a
    row less, or none.
    """
    counts = [HEAD.unpack_from(record)[3] if record else 0 for record in records]
    total, workers = sum(counts), len(records)
    if counts != [len(range(w, total, workers)) for w in range(workers)]:
        raise CtrlabError(f"Workers have the rows of a table in turn; of table {t} they have {counts} from row {first} on.")
    rows = np.empty((total, (len(records[0]) - HEAD.size) // counts[0]), np.uint8)
    for w, record in enumerate(filter(None, records)):
        rows[w::workers] = np.frombuffer(record, np.uint8, offset=HEAD.size).reshape(counts[w], -1)
    return record_of(RUN, t, first, total, rows)

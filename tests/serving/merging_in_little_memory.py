"""Writes two workers' parts of a table of several times the memory that this process may still take, merges them and reads it.

    python merging_in_little_memory.py FOLDER

A limit on the address space holds for every allocation. It is set once a small table has gone the same way: by then all code is
loaded and all threads run.
"""

import os
import resource
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from ctrlab.serving.merging import merge_weights
from ctrlab.serving.record_file import records_in
from ctrlab.serving.weights import HEAD, RUN, Moment, write_weights
from ctrlab.whole_batch import Shard

DIM, SMALL, TIMES = 256, 2_001, 3
LEFT = 64 << 20
"""Bytes that may still be taken."""


class Numbers:
    """A worker's rows of a table whose row r holds r; they are made as they are read."""

    def __init__(self, rows: int, shard: Shard):
        self.shape, self._ids = (shard.rows(rows), DIM), range(shard.index, rows, shard.count)

    def __getitem__(self, part: slice) -> np.ndarray:
        return np.repeat(np.float32(self._ids[part])[:, None], DIM, axis=1)


def go(folder: Path, rows: int) -> None:
    parts = []
    for index in range(2):
        shard = Shard(index, 2)
        parts.append(folder / str(index))
        write_weights(parts[-1], "", Moment(7), [Numbers(rows, shard)], [], [], ["float32"], shard)
    merge_weights(parts, folder / "merged", "bundle", Moment(7))
    there = 0
    for record in records_in(folder / "merged"):
        kind, _, first, count = HEAD.unpack_from(record)
        if kind == RUN:
            values = np.frombuffer(record, np.float32, offset=HEAD.size).reshape(count, DIM)
            assert first == there and (values == np.arange(first, first + count)[:, None]).all()
            there += count
    assert there == rows


def main(folder: Path) -> None:
    go(folder, SMALL)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + LEFT
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    go(folder, TIMES * LEFT // (4 * DIM) + 1)
    try:
        np.ones(TIMES * LEFT, np.uint8)  # the table
    except MemoryError:
        return
    raise AssertionError("the limit does not hold")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Checks of 02_ops/11_file_formats: (1) columns of a file without the others, (2) a list column as a ragged tensor, uncopied."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ctrlab.lessons.check import CheckFailed, call, require_close
from ctrlab.lessons.exercise import Exercise, Ragged
from ctrlab.lessons.limits import Peak, stated

FOOTER_BYTES = 1 << 16  # what pyarrow reads at a file's end to find its columns
LARGE = 20_000
IDS = 8 * LARGE


class CountingFile(io.BytesIO):
    """A file in memory that counts the bytes that are read."""

    bytes_read = 0

    def read(self, size=-1):
        found = super().read(size)
        self.bytes_read += len(found)
        return found


def parquet(table: pa.Table, group: int) -> CountingFile:
    file = CountingFile()
    pq.write_table(table, file, row_group_size=group, compression="none", use_dictionary=False)
    file.seek(0)
    return file


def wide_table(rng: np.random.Generator, rows: int) -> pa.Table:
    columns = {f"c{i}": rng.standard_normal(rows).astype(np.float32) for i in range(20)}
    return pa.table(columns | {"id": rng.integers(0, 1 << 31, rows).astype(np.int32)})


WIDE_ROWS = 10 * LARGE
MOST_READ = 2 * 4 * WIDE_ROWS * 11 // 10 + FOOTER_BYTES


@stated(f"for 2 of 21 columns of {WIDE_ROWS:,} rows, at most {MOST_READ:,} bytes read, and no array that owns memory")
def check_columns(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `columns_of(file, names)` yields {name: array} for each row group."""
    groups = {"two whole groups and a tail": (250, 100), "one group": (40, 64), "groups of one row": (3, 1)}
    for case, (rows, group) in groups.items():
        table, names = wide_table(rng, rows), ["id", f"c{int(rng.integers(0, 20))}"]
        received = call(lambda *given: list(answer(*given)), parquet(table, group), names, case=case)
        if len(received) != -(-rows // group) or any(list(entry) != names for entry in received):
            raise CheckFailed(
                f"One dictionary of the named columns, in their order, comes for each row group; here {case}.",
                expected=f"{-(-rows // group)} with the columns {names}",
                received=f"{len(received)}, and the first with {list(received[0])}" if received else "nothing",
                next_step="range(parquet.num_row_groups) has the tail too",
            )
        for name in names:
            joined = np.concatenate([entry[name] for entry in received])
            require_close(joined, table[name].to_numpy(), case=f"column {name}, {case}", next_step="are the groups in order?")
    _enforce_bytes(answer, rng)


def _enforce_bytes(answer: Callable, rng: np.random.Generator) -> None:
    table = wide_table(rng, WIDE_ROWS)
    file, names = parquet(table, 4 * LARGE), ["c3", "id"]
    arrays = [array for entry in answer(file, names) for array in entry.values()]
    if file.bytes_read > MOST_READ:
        raise CheckFailed(
            "Budget: only the named columns leave the file.",
            expected=f"at most {MOST_READ:,} bytes read",
            received=f"{file.bytes_read:,} bytes read",
            next_step="read_row_group takes columns=",
        )
    if any(array.flags.owndata for array in arrays):
        raise CheckFailed(
            "Budget: the arrays lie where Arrow put them.",
            expected="arrays that own no memory",
            received="a copy",
            next_step="print the type of what you take the array from: what does its documentation say of copies?",
        )


def lists(rng: np.random.Generator) -> Iterator[tuple[str, pa.ListArray, list]]:
    def array(rows):
        return pa.array(rows, pa.list_(pa.int32()))

    def some(rows):
        return [rng.integers(0, 1_000, rng.integers(0, 6)).tolist() for _ in range(rows)]

    for _ in range(2):
        rows = some(int(rng.integers(2, 30)))
        yield "random lists", array(rows), rows
    yield "empty lists", array([[], [5], [], []]), [[], [5], [], []]
    yield "no rows", array([]), []
    yield "missing lists, which are empty", array([None, [1, 2], None]), [[], [1, 2], []]
    rows = [[7, 8], *some(10), [9]]
    yield "a slice, whose offsets do not start at 0", array(rows).slice(1, 9), rows[1:10]


def many_ids(rng: np.random.Generator) -> tuple[pa.ListArray]:
    values, lengths = rng.integers(0, 1 << 30, IDS).astype(np.int32), np.full(LARGE, IDS // LARGE)
    return (pa.ListArray.from_arrays(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), values),)


CHECKS = {
    1: check_columns,
    2: Exercise(
        asks="ragged(lists): a ListArray of int32 [n, (L)] -> RaggedTensor of int32 with int64 row splits",
        cases=lists,
        reference=lambda array, rows: rows,
        given=lambda array, rows: (lambda: array,),  # Arrow's arrays can't be changed, nor compared before and after
        ask=lambda answer: lambda array: answer(array()),
        compare=Ragged(
            "offsets count from the start of the unsliced values; flatten() gives the slice's own, from 0", dtype=np.int32
        ),
        limits=[
            Peak(
                "whole arrays, and no list in Python, which holds an object per id",
                f"{IDS:,} ids",
                most=28 * IDS,
                on=many_ids,
                next_step="to_pylist() makes an object of every id; work on whole arrays",
            )
        ],
    ),
}

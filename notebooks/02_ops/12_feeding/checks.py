"""Checks of 02_ops/12_feeding: (1) a pipeline that parses whole batches ahead of the step, (2) files read side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.limits import stated

PATIENCE = 5.0  # seconds until something that should happen by itself counts as not happening


class Company:
    """Calls that wait until `meet` of them run at once; after one that has waited in vain, no other waits.

    Attributes:
        calls: the number of calls. together: the most that ran at once. in_vain: whether one has waited in vain.
    """

    def __init__(self, meet: int = 1):
        self.calls, self.together, self.in_vain, self._inside, self._meet = 0, 0, False, 0, meet
        self._lock = threading.Condition()

    def wait(self, given: np.ndarray) -> np.ndarray:
        """Returns what was given."""
        with self._lock:
            self.calls += 1
            self._inside += 1
            self.together = max(self.together, self._inside)
            self._lock.notify_all()
            enough = self._lock.wait_for(lambda: self.together >= self._meet or self.in_vain, PATIENCE)
            self.in_vain |= not enough
        with self._lock:
            self._inside -= 1
        return given


class Parser(Company):
    """Stands in for decode_csv: text to numbers, [B] -> float32 [B]."""

    def __init__(self, meet: int = 1):
        super().__init__(meet)
        self.ranks: set[int | None] = set()

    def __call__(self, lines: tf.Tensor) -> tf.Tensor:
        self.ranks.add(lines.shape.rank)
        parsed = tf.strings.to_number(tf.numpy_function(self.wait, [lines], tf.string))
        return tf.ensure_shape(parsed, lines.shape)


def lines_of(rows: int) -> tf.data.Dataset:
    return tf.data.Dataset.range(rows).map(tf.strings.as_string)


def run(pipeline: Callable[[], tf.data.Dataset], value: Callable[[tf.Tensor], object], case: str) -> list:
    """Runs a data set, and returns the values of its elements."""
    try:
        return [value(element) for element in pipeline()]
    except NotImplementedError:  # still the stub
        raise
    except Exception as error:
        raise CheckFailed(
            f"The pipeline runs to its end; here {case}.",
            expected="batches or rows",
            received=f"{type(error).__name__}: {str(error)[:200]}",
            next_step="iterate over it by hand and read the error",
        ) from error


def numbers(batch: tf.Tensor) -> list[float]:
    return np.atleast_1d(batch.numpy()).tolist()


def text(row: tf.Tensor) -> str:
    return row.numpy().decode()


@stated("when one batch was taken, at least 3 are parsed; at least 2 calls of `parse` run at once")
def check_feed(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `feed(lines, parse, batch_size)` -> batches of parsed rows in the order of the lines."""
    for rows, size in ((10, 4), (8, 4), (1, 3), (0, 2), (int(rng.integers(20, 40)), int(rng.integers(1, 6)))):
        parser = Parser()
        case = f"{rows} lines in batches of {size}"
        received = run(lambda p=parser, r=rows, s=size: answer(lines_of(r), p, s), numbers, case)
        expected = np.split(np.arange(float(rows)), range(size, rows, size)) if rows else []
        if received != [batch.tolist() for batch in expected]:
            raise CheckFailed(
                f"Rows come in the lines' order, and the last batch may be smaller; here {case}.",
                expected=[batch.tolist() for batch in expected][:3],
                received=received[:3],
                next_step="map keeps the order unless deterministic=False; batch keeps the rest unless drop_remainder",
            )
        seen = " and ".join(f"tensors of rank {rank}" for rank in sorted(parser.ranks)) or "no call of `parse`"
        _budget(
            parser.ranks == {1},
            "`parse` is given whole batches",
            "batches, of rank 1",
            seen,
            "in which order do the stages stand?",
        )
    parser = Parser(meet=2)
    run(lambda: answer(lines_of(40), parser, 4), numbers, "a parser that waits for company")
    _budget(
        parser.together >= 2,
        "at least two batches are parsed at the same time",
        "two calls at once",
        "one after the other",
        "by default, map calls its function again only when the call before has ended",
    )
    parser = Parser()
    ahead = iter(answer(lines_of(4_000), parser, 4).prefetch(0))
    next(ahead)
    before = time.monotonic()
    while parser.calls < 3 and time.monotonic() - before < PATIENCE:
        time.sleep(0.01)
    _budget(
        parser.calls >= 3,
        "batches are parsed before they are asked for",
        "3 parsed when one was taken",
        f"{parser.calls} parsed",
        "what works ahead of the one who asks, and does it stand behind `parse`?",
    )


class Shelf:
    """Files "0" to "n-1" of rows "file.row"; to read one is to wait for `company`."""

    def __init__(self, rows: list[int], company: Company | None = None):
        self.rows, self.company = rows, company

    def names(self) -> tf.data.Dataset:
        return tf.data.Dataset.range(len(self.rows)).map(tf.strings.as_string)

    def read(self, name: tf.Tensor) -> tf.data.Dataset:
        rows = tf.gather(tf.constant(self.rows, tf.int64), tf.strings.to_number(name, tf.int64))
        read = tf.data.Dataset.range(rows).map(lambda row: tf.strings.join([name, tf.strings.as_string(row)], "."))
        if self.company is None:
            return read
        return read.map(lambda row: tf.ensure_shape(tf.numpy_function(self.company.wait, [row], tf.string), []))


def interleaved(rows: list[int], cycle: int, block: int) -> list[str]:
    """The definition: `cycle` files in turn, `block` rows of each; a file that has ended gives its place to the next one."""
    waiting, places, out = list(range(len(rows))), [], []
    left = {file: 0 for file in waiting}
    places = [waiting.pop(0) if waiting else None for _ in range(cycle)]
    while any(place is not None for place in places):
        for i, file in enumerate(places):
            if file is None:
                continue
            taken = min(block, rows[file] - left[file])
            out += [f"{file}.{row}" for row in range(left[file], left[file] + taken)]
            left[file] += taken
            if taken < block:  # found at its end
                places[i] = waiting.pop(0) if waiting else None
    return out


@stated("all rows in order; rows of two files are read at the same time")
def check_side_by_side(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 2: `side_by_side(names, read, cycle)` -> the rows of `cycle` files at a time, 16 rows of each in turn."""
    for rows, cycle in (([40, 40, 40, 40], 2), ([33, 0, 20], 3), ([5], 4), (rng.integers(1, 50, 5).tolist(), 2)):
        shelf = Shelf(rows)
        case = f"files of {rows} rows, {cycle} at a time"
        received = run(lambda s=shelf, c=cycle: answer(s.names(), s.read, c), text, case)
        every = [f"{file}.{row}" for file, n in enumerate(rows) for row in range(n)]
        if sorted(received) != sorted(every):
            raise CheckFailed(
                f"Each row comes once; here {case}.",
                expected=f"{len(every)} rows, each once",
                received=f"{len(received)} rows, {len(set(received))} of them different",
                next_step="read each file to its end, and each file once",
            )
        right = interleaved(rows, cycle, 16)
        if received != right:
            first = next(n for n, (one, other) in enumerate(zip(received, right)) if one != other)
            raise CheckFailed(
                f"16 rows of each open file come in turn, and the next file takes the place of one that ends; here {case}.",
                expected=f"row {right[first]} (file.row)",
                received=f"row {received[first]}",
                index=f"place {first}",
                next_step="interleave has an argument for the files at a time, and one for the rows of each in turn",
            )
    company = Company(meet=2)
    run(lambda: answer(Shelf([20, 20], company).names(), Shelf([20, 20], company).read, 2), text, "files that wait for company")
    _budget(
        not company.in_vain,
        "the files' waits overlap",
        "rows of two files read at the same time",
        "one file after the other",
        "by default, interleave reads from one of its open files at a time",
    )


def _budget(kept: bool, rule: str, expected: object, received: object, next_step: str) -> None:
    if not kept:
        raise CheckFailed(f"Budget: {rule}.", expected=expected, received=received, next_step=next_step)


CHECKS = {1: check_feed, 2: check_side_by_side}

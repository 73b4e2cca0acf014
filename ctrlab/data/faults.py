"""Explains a bad row in one clear sentence: which file, which line, what is wrong.

A pipeline decodes whole batches and no longer knows where a row came from, so it raises a TensorFlow error. After such an error
`explained` reads the files again and raises the sentence.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import re
from collections import deque
from collections.abc import Iterator

import numpy as np

from ctrlab.data.source import Order, Reading, Source
from ctrlab.errors import BadData

LOOK_ROWS = 4_096
LOOK_FAULTS = 64
"""Faults that are looked at in one file. If none of them matches, the error is taken to come from elsewhere."""
ASSERTED = "assertion failed: ["
_NODES = re.compile(r"^({{[^}]*}}\s*)+")  # where in the graph TensorFlow's op error arose
_END = re.compile(r"\s*\n\s*\[\[|\s*\[\[\{|\s*\[Op:|\x1b\[0m")  # end of the sentence inside TensorFlow's op error
_READ_IN = re.compile(r"{{node reading_(\d+)/")
_IN_BATCH = re.compile(r"(?<=record )\d+|(?<=Index: )\d+")  # numbers of rows in a batch: the one looked at now is another
_PARSING = re.compile("Ctrlab>Parse(Ids|Numbers)")
_GENERATED = re.compile(r"^(?:{{[^}]*}}\s*)*BadData: (.*)", re.MULTILINE)  # by a generator that TensorFlow calls
_GATHERED = re.compile(
    r"(?:/embedding/.*|Exception encountered when calling .*__wrapped__Resource)Gather.*"
    r"indices\[[\d,]*\] = (-?\d+) is not in (\[0, \d+\))",
    re.DOTALL,
)


_readings: deque[Reading] = deque(maxlen=32)  # the latest ones, because errors come from what is being read now
_numbers = itertools.count(1)


def remember(source: Source, order: Order) -> Reading:
    """Registers files that a later error may come from."""
    _readings.append(Reading(next(_numbers), source, order))
    return _readings[-1]


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Raises BadData with file and line in place of TensorFlow's error about a file that `read` opened. An error of a check in
    the model's graph, such as the check of its ids, becomes BadData too.

    >>> with explained():                                  # doctest: +SKIP
    ...     model.fit(read("train.csv", schema, batch_size=512))
    """
    try:
        yield
    except Exception as error:
        import tensorflow as tf

        if isinstance(error, tf.errors.OutOfRangeError):  # not a fault: the data are over
            raise
        fault = None
        if isinstance(error, tf.errors.OpError) and any(op in str(error) for op in ("IteratorGetNext", "MakeIterator")):
            fault = find(error)
        if fault is None and isinstance(error, tf.errors.InvalidArgumentError):
            fault = _refusal(error)
        if fault is not None:
            raise fault from None
        raise


def sentence_of(message: str) -> str:
    """The message of an op, without the marks, heading and stack that TensorFlow and Keras put around it. For an assertion it is
    the first part that is a sentence, or else all parts.

    >>> sentence_of("{{node a/Assert}} assertion failed: [Ids of column \\'a\\' are below] [20] [Op:Assert]")
    "Ids of column 'a' are below 20."
    """
    said = _END.split(message)[0].rstrip()
    said = _NODES.sub("", said.rpartition("\n")[2].removeprefix("\x1b[1m")) if _HEADED.match(said) else _NODES.sub("", said)
    said = re.sub(r"^\(\d\) [A-Z_]+:\s*", "", said.strip())
    if ASSERTED not in said:
        return said
    parts = said.partition(ASSERTED)[2].removesuffix("]").split("] [")
    parts = [part.encode().decode("unicode_escape").encode("latin-1").decode(errors="replace") for part in parts]
    return next((part for part in parts if part.endswith(".")), f"{' '.join(parts)}.")


_HEADED = re.compile(r"Graph execution error:|Exception encountered when calling|\d+ root error")


def _refusal(error: Exception) -> BadData | None:
    """The error of a check in a model's graph; None for other errors."""
    if ASSERTED in error.message:
        return BadData(sentence_of(error.message))
    if _PARSING.search(str(error)):
        return BadData(re.sub(r" in row (\d+)\.$", r" in row \1 of its batch, counted from 0.", sentence_of(error.message)))
    if found := _GENERATED.search(error.message):
        return BadData(found[1])
    if found := _GATHERED.search(error.message):
        return BadData(f"Ids lie in the table that they select rows of, in {found[2]}; received {found[1]}: mend the id.")
    return None


def find(error: Exception) -> BadData | None:
    """An error for the row that `error` is about, in the files that are read; None if it does not come from them."""
    named = _READ_IN.search(str(error))
    readings = [r for r in reversed(_readings) if named is None or r.number == int(named[1])]
    if named is None and (fault := _in_parquet(readings, error)):
        return fault
    return next(filter(None, (_in_records(r, error) for r in readings if r.source.format != "parquet")), None)


def _in_parquet(readings: list[Reading], error: Exception) -> BadData | None:
    """The Parquet reader's sentence begins with the file."""
    said = getattr(error, "message", str(error))
    files = {str(file) for reading in readings if reading.source.format == "parquet" for file in reading.source.files}
    places = [(said.index(file), -len(file)) for file in files if file in said]  # the end of a path may be another's name
    if not places:
        return None
    return BadData(re.sub(r"; row (\d+) has ", r"; row \1, counted from 0, has ", _END.split(said[min(places)[0] :])[0].strip()))


def _in_records(reading: Reading, error: Exception) -> BadData | None:
    from ctrlab.data import pipeline

    source, before = reading.source, 0
    decode = pipeline.decoder(source)
    for file in source.files:
        if not file.is_file():
            if str(file) in str(error):
                return BadData(f"File {file} does not exist any more.")
            continue
        alone = Source((file,), source.format, source.schema, source.lists)
        with contextlib.suppress(BadData):  # the reader has looked at it before, so it has changed since
            faults = _Faults(alone, pipeline.records(alone), decode, reading.order, before)
            for sentence, cause in itertools.islice(faults, LOOK_FAULTS):
                if _same(cause, error):
                    return BadData(sentence)
            before += faults.rows
    return None


def _same(cause: Exception, error: Exception) -> bool:
    """Whether a fault found now is the one that was raised: a file may have changed, and the error may come from elsewhere."""
    cause_says, error_says = (_IN_BATCH.sub("0", text) for text in (_first_line(cause), str(error)))
    ends = (line.partition("[Op:")[0].strip() for line in error_says.splitlines())  # before it, TensorFlow says where it arose
    return any(end.endswith(cause_says.partition("[Op:")[0].strip()) for end in ends)


class _Faults:
    """Finds the faults in those rows of a file that a reading takes: sentences, each with TensorFlow's error. It decodes the file
    in batches, then ever shorter beginnings of a batch that fails.

    Attributes:
        rows: number of rows that were decoded.
    """

    def __init__(self, source: Source, records, decode, order: Order, before: int):
        self.source, self.records, self.decode, self.order, self.before = source, records, decode, order, before
        self.rows = 0

    def __iter__(self) -> Iterator[tuple[str, Exception]]:
        import tensorflow as tf

        [file] = self.source.files
        try:
            for whole in self.records.batch(LOOK_ROWS):
                rows = np.arange(self.rows, self.rows + len(whole))
                rows = rows[self.order.may_take(self.before + rows)]
                batch = tf.gather(whole, rows - self.rows)
                self.rows += len(whole)
                while len(batch) and _error(self.decode, batch):
                    first = bisect.bisect_left(range(len(batch)), True, key=lambda i: bool(_error(self.decode, batch[: i + 1])))
                    error = _error(self.decode, batch[first : first + 1]) or _error(self.decode, batch[: first + 1])
                    yield _sentence(self.source, int(rows[first]) + 1, batch[first].numpy(), error), error
                    batch, rows = batch[first + 1 :], rows[first + 1 :]
        except tf.errors.OpError as error:
            place = f"record {_whole_records(self.records) + 1}, counted from 1"
            yield f"{file} is damaged or cut off in {place}: {_first_line(error)}", error


def _whole_records(records) -> int:
    """The number of records before the damage."""
    import tensorflow as tf

    whole = 0
    with contextlib.suppress(tf.errors.OpError):
        for _ in records:
            whole += 1
    return whole


def _error(decode, batch) -> Exception | None:
    import tensorflow as tf

    try:
        decode(batch)
    except tf.errors.OpError as error:
        return error
    return None


def _sentence(source: Source, row: int, record: bytes, error: Exception) -> str:
    from ctrlab.data import csv, tfrecord

    [file] = source.files
    explain, place = (
        (csv.explain, f"line {row}") if source.format == "csv" else (tfrecord.explain, f"record {row}, counted from 1")
    )
    return f"{file}, {place}: {explain(record, source.schema) or _first_line(error)}"


def first_line(problem: BaseException) -> str:
    """The first line of an error's message, or its type if the message is empty.

    >>> first_line(MemoryError())
    'MemoryError'
    """
    return (str(problem).strip() or type(problem).__name__).splitlines()[0]


def _first_line(error: Exception) -> str:
    return _NODES.sub("", getattr(error, "message", str(error)).splitlines()[0]).strip()

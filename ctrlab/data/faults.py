"""Explains a bad row in one clear sentence: which file, which line, what is wrong.

A pipeline decodes whole batches and no longer knows where a row came from, so it raises a TensorFlow error. After such an error
`explained` reads the files again and raises the sentence.
"""

from __future__ import annotations

import bisect
import contextlib
import re
from collections import deque
from collections.abc import Iterator

from ctrlab.data.source import Source
from ctrlab.errors import BadData

LOOK_ROWS = 4_096
ASSERTED = "assertion failed: ["
_NODES = re.compile(r"^({{[^}]*}}\s*)+")  # where in the graph TensorFlow's op error arose
_END = re.compile(r"\n|\[\[\{|\[Op:")  # end of the reader's sentence inside TensorFlow's op error


_readings: deque[Source] = deque(maxlen=32)  # the latest ones, because errors come from what is being read now


def remember(source: Source) -> None:
    """Registers files that a later error may come from."""
    _readings.append(source)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Raises BadData with file and line in place of TensorFlow's error about a file that `read` opened.

    >>> with explained():                                  # doctest: +SKIP
    ...     model.fit(read("train.csv", schema, batch_size=512))
    """
    try:
        yield
    except Exception as error:
        import tensorflow as tf

        if isinstance(error, tf.errors.OutOfRangeError):  # not a fault: the data are over
            raise
        if isinstance(error, tf.errors.OpError) and any(op in str(error) for op in ("IteratorGetNext", "MakeIterator")):
            for source in reversed(_readings):
                if fault := find(source, error):
                    raise fault from None
        elif isinstance(error, tf.errors.InvalidArgumentError) and ASSERTED in error.message:  # the model's own check of ids
            asserted = error.message.partition(ASSERTED)[2].splitlines()[0]
            sentence = asserted.rstrip("]").replace("] [", " ").replace("\\'", "'")
            raise BadData(f"{sentence}.") from None
        raise


def find(source: Source, error: Exception) -> BadData | None:
    """An error for the first row in the files that can't be decoded; None if `error` does not come from them."""
    from ctrlab.data import pipeline

    if source.format == "parquet":  # the Parquet reader already names file and problem
        said = getattr(error, "message", str(error))  # in a graph, the sentence stands below a heading
        at = next((said.index(str(file)) for file in source.files if str(file) in said), None)
        return None if at is None else BadData(_END.split(said[at:])[0].strip())
    decode = pipeline.decoder(source)
    for file in source.files:
        if not file.is_file():
            if str(file) in str(error):
                return BadData(f"File {file} does not exist any more.")
            continue
        alone = Source((file,), source.format, source.schema, source.lists)
        with contextlib.suppress(BadData):  # the reader has looked at it before, so it has changed since
            fault = _first_fault(alone, pipeline.records(alone), decode)
            if fault and _same(fault[1], error):
                return BadData(fault[0])
    return None


def _same(cause: Exception, error: Exception) -> bool:
    """Whether a fault found now is the one that was raised: a file may have changed, and the error may come from elsewhere.

    Numbers count records within a batch, and the batch was another one.
    """
    cause_says, error_says = (re.sub(r"\d+", "0", text) for text in (_first_line(cause), str(error)))
    ends = (line.partition("[Op:")[0].strip() for line in error_says.splitlines())  # before it, TensorFlow says where it arose
    return any(end.endswith(cause_says.partition("[Op:")[0].strip()) for end in ends)


def _first_fault(source: Source, records, decode) -> tuple[str, Exception] | None:
    """What is wrong in one file, and TensorFlow's error.

    Decodes it in batches, then ever shorter beginnings of the first batch that fails.
    """
    import tensorflow as tf

    [file] = source.files
    row = 0
    try:
        for batch in records.batch(LOOK_ROWS):
            if _error(decode, batch):
                first = bisect.bisect_left(range(len(batch)), True, key=lambda i: _error(decode, batch[: i + 1]) is not None)
                error = _error(decode, batch[first : first + 1]) or _error(decode, batch[: first + 1])
                return _sentence(source, row + first + 1, batch[first].numpy(), error), error
            row += len(batch)
    except tf.errors.OpError as error:
        return f"{file} is damaged or cut off in record {_whole_records(records) + 1}: {_first_line(error)}", error
    return None


def _whole_records(records) -> int:
    """How many records precede the damage."""
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
    explain, what = (csv.explain, "line") if source.format == "csv" else (tfrecord.explain, "record")
    return f"{file}, {what} {row}: {explain(record, source.schema) or _first_line(error)}"


def first_line(problem: BaseException) -> str:
    """Of what it says, or its type where it says nothing.

    >>> first_line(MemoryError())
    'MemoryError'
    """
    return (str(problem).strip() or type(problem).__name__).splitlines()[0]


def _first_line(error: Exception) -> str:
    return _NODES.sub("", getattr(error, "message", str(error)).splitlines()[0]).strip()

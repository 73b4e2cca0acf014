"""Logs scored requests as Parquet files to train on: the examples as requests brought them, and keys with which labels are found.

    LOG/ctr/20261124T101500.000000-1f6c0a2b.parquet     one file per model, its columns and `seconds`; it appears when it is whole

Its columns are the model's, and these:

    _request, _row       the request's id, and which of its examples: whoever learns what became of it names it by these
    _time                when it was answered
    _version, _update    of the model that answered
    _probabilities       what it answered, one number per task; of an own model's outputs the values of the row, by their names

The columns and their types are those of the version that answered, whatever a request left out. If another has taken its place
before the request is written, they are that one's; a request that it would refuse is left out. A request without rows has none in
the log. An input whose size may be any is a list of the row's values.

`ctrlab data join` adds the labels. A thread of its own parses and writes: a request never waits for it. Requests that come faster
than the thread can write are left out, which is counted and said. So is one whose users' values, written for each candidate,
would take too much memory. Requests that are not written yet are lost if the process is killed.
"""

from __future__ import annotations

import json
import logging
import queue
import secrets
import threading
import time
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from ctrlab.data.faults import first_line
from ctrlab.data.labels import KEYS, REQUEST, ROW, TIME
from ctrlab.data.outputs import Replacement, clear_errors
from ctrlab.errors import CtrlabError, cure_of
from ctrlab.server.described import DATATYPES
from ctrlab.server.served import ServedModel
from ctrlab.serving.graph import by_rows
from ctrlab.serving.inputs import COUNTS
from ctrlab.serving.processor import ALL, Format, Reply
from ctrlab.serving.wire import fields, repeated

THREAD = "ctrlab-request-log"
WAITING = 1_000
"""The most requests that wait to be written."""
WAITING_BYTES = 256 << 20
"""The most bytes of them and their answers."""
MOST_BYTES = 64 << 20
"""A file is written early if its rows take this many bytes of memory."""
USERS_BYTES = 256 << 20
"""The most bytes of the values of a request's users, which are written for each of their candidates."""
TOGETHER = 256
"""The number of requests that are made into one table."""
log = logging.getLogger(__name__)


class Scored(NamedTuple):
    """An answered request."""

    model: ServedModel
    id: str
    request: bytes
    format: Format
    header: int
    reply: Reply
    micros: int

    @property
    def bytes(self) -> int:
        return len(self.request) + len(self.reply.data)


class RequestLog:
    """Logs a share of the requests. Thread-safe.

    Args:
        folder: the log's folder; each model has a folder in it.
        sample: the fraction of requests that is logged, above 0 and at most 1; the same ids are selected each time.
        seconds: time between two files.
    Raises:
        CtrlabError: a number is out of range, or the folder can't be made.
    """

    def __init__(self, folder: Path, sample: float = 1.0, seconds: float = 60.0):
        if not (0 < sample <= 1 and seconds > 0):
            raise CtrlabError(f"A log has a share of the requests in (0, 1], and seconds above 0; received {sample}, {seconds}.")
        self.folder, self._sample, self._seconds = Path(folder), sample, seconds
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CtrlabError(
                f"The folder {folder} can't take a log: {error.strerror}; {cure_of(error, 'name another')}."
            ) from None
        self.left_out = 0
        """Number of selected requests that are in no file: too many came at once, a text is not UTF-8, or the disk refused."""
        self._waiting: queue.Queue[Scored | None] = queue.Queue()
        self._held: dict[tuple[str, pa.Schema], Held] = {}  # versions that answer by turns may have other columns
        self._lock = threading.Lock()
        self._too_fast = self._behind = 0  # requests; bytes that wait
        self._due = time.monotonic() + seconds
        self._thread = threading.Thread(target=self._write_all, name=THREAD, daemon=True)
        self._thread.start()

    def add(self, model: ServedModel, id: str, request: bytes, format: Format, header: int, reply: Reply) -> None:
        """Logs an answered request if its id is selected. Returns at once."""
        if zlib.crc32(id.encode()) >= self._sample * 2**32:
            return
        scored = Scored(model, id, request, format, header, reply, time.time_ns() // 1_000)
        with self._lock:
            if self._waiting.qsize() < WAITING and self._behind + scored.bytes <= WAITING_BYTES:
                self._behind += scored.bytes
                self._waiting.put(scored)
            else:
                self._too_fast += 1
                self.left_out += 1

    def close(self) -> None:
        """Writes all logged requests. Call it before the processors are closed; a second call does nothing."""
        if self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join()

    def _write_all(self) -> None:
        while True:
            try:
                scored = self._waiting.get(timeout=max(0.0, self._due - time.monotonic()))
            except queue.Empty:
                self._rotate()
                continue
            if scored is None:
                self._rotate()
                return
            try:
                self._keep(scored)
            except Exception as problem:  # whatever a request holds, the next one is logged
                self._leave_out(1)
                log.warning("Request %s is not in the log: %s", scored.id, first_line(problem))
            with self._lock:
                self._behind -= scored.bytes
            if time.monotonic() >= self._due:
                self._rotate()

    def _keep(self, scored: Scored) -> None:
        table = to_table(scored)
        if not table.num_rows:
            return
        place = scored.model.name, table.schema
        if place in self._held and self._held[place].bytes >= MOST_BYTES:
            self._write(place)
        self._held.setdefault(place, Held()).add(table)

    def _rotate(self) -> None:
        self._due = time.monotonic() + self._seconds
        for place in list(self._held):
            self._write(place)
        with self._lock:
            too_fast, self._too_fast = self._too_fast, 0
        if too_fast:
            log.warning("%d requests are not in the log: they came faster than it is written; log a share of them", too_fast)

    def _write(self, place: tuple[str, pa.Schema]) -> None:
        held, (model, _) = self._held.pop(place), place
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
        path = self.folder / model / f"{now}-{secrets.token_hex(4)}.parquet"
        try:
            with clear_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                with Replacement(path) as file:
                    pq.write_table(pa.concat_tables(held.tables), file.file, compression="zstd")
                    file.keep()
        except Exception as problem:  # whatever a file meets, the next one is written
            self._leave_out(held.requests)
            log.warning("%d requests of %s are not in the log: %s", held.requests, model, first_line(problem))

    def _leave_out(self, requests: int) -> None:
        with self._lock:
            self.left_out += requests


class Held:
    """The tables of the next file, with one schema. The cost of adding a table does not depend on their number."""

    def __init__(self):
        self.tables, self.bytes, self.requests = [], 0, 0
        self._single = 0

    def add(self, table: pa.Table) -> None:
        self.tables.append(table)
        self.bytes += table.nbytes
        self.requests += 1
        self._single += 1
        if self._single == TOGETHER:  # a table of a few rows is far smaller than Arrow's objects around it
            self.tables[-TOGETHER:] = [pa.concat_tables(self.tables[-TOGETHER:]).combine_chunks()]
            self._single = 0


def to_table(scored: Scored) -> pa.Table:
    """The examples of a request, one row each, even if they share a user.

    Raises:
        ArrowInvalid: a text is not UTF-8. CtrlabError: the values of users take more than `USERS_BYTES`.
    """
    with scored.model.use(scored.reply.version) as processor:
        arrays, info = processor.parse(scored.request, scored.format, scored.header), processor.info()
    per_user = info["per_user"]
    counts = arrays.pop(COUNTS.column) if per_user else None
    columns = {name: values for name, values in arrays.items() if "/" not in name}
    for name in arrays:
        if name.endswith("/values"):
            column = name.removesuffix("/values")
            columns[column] = pa.ListArray.from_arrays(arrays[f"{column}/row_splits"].cast(pa.int32()), text(arrays[name]))
    columns = {name: text(values) for name, values in columns.items()}
    if counts is not None:  # a user's values are those of each of the user's candidates
        taken = int(sum(np.dot(counts, bytes_of(columns[name])) for name in per_user))
        if taken > USERS_BYTES:
            most = f"A log has a user's values with each candidate, in at most {USERS_BYTES} bytes for a request"
            raise CtrlabError(f"{most}; these take {taken}: ask for fewer candidates at once.")
        user_of = np.repeat(np.arange(len(counts)), counts)
        columns = {name: values.take(pa.array(user_of)) if name in per_user else values for name, values in columns.items()}
    scores = probabilities(scored.reply, scored.format)
    rows = len(scores)
    columns |= {name: in_rows(columns[name], rows) for name, shape in info["input_shapes"].items() if -1 in shape[1:]}
    columns |= {
        REQUEST: pa.array([scored.id] * rows, KEYS[REQUEST]),
        ROW: pa.array(np.arange(rows, dtype=np.int32)),
        TIME: pa.array(np.full(rows, scored.micros), pa.timestamp("us", "UTC")),
        "_version": pa.array(np.full(rows, scored.reply.version, np.int64)),
        "_update": pa.array(np.full(rows, scored.reply.update, np.int64)),
        "_probabilities": in_rows(pa.array(scores.ravel()), rows),
    }
    return pa.table(columns)


def in_rows(values: pa.Array, rows: int) -> pa.ListArray:
    """A list per row, of values that lie one after the other, as many for each row."""
    return pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32) * (len(values) // max(rows, 1)), values)


def bytes_of(values: pa.Array) -> np.ndarray:
    """About how many bytes each of these texts, numbers, or lists of them takes, int64 [values]."""
    if pa.types.is_list(values.type):
        inside = np.concatenate([[0], np.cumsum(bytes_of(values.values))])
        return np.diff(inside[values.offsets]) + 4
    texts = pa.types.is_string(values.type)
    return np.full(len(values), 4) + (pc.binary_length(values).to_numpy() if texts else 4)


def text(values: pa.Array) -> pa.Array:
    """Binary values as text; other values unchanged."""
    return values.cast(pa.string()) if pa.types.is_binary(values.type) else values


def probabilities(reply: Reply, format: Format) -> np.ndarray:
    """The answer to each row, float32 [B, K]: see `by_rows`."""
    return by_rows({name: np.asarray(values, np.float32) for name, values in outputs_in(reply, format).items()})


def outputs_in(reply: Reply, format: Format) -> dict[str, np.ndarray | list]:
    """{output: its values} of an answer."""
    if format == "predict":  # PredictResponse.outputs: a map
        entries = map(fields, repeated(reply.data, 1))
        return {entry[1].decode(): tf.make_ndarray(tensor_pb2.TensorProto.FromString(entry[2])) for entry in entries}
    if format == "infer":  # ModelInferResponse
        tensors, raw = repeated(reply.data, 5), repeated(reply.data, 6)
        return {
            fields(tensor)[1].decode(): _of_bytes(values, fields(tensor)[2].decode(), repeated(tensor, 3))
            for tensor, values in zip(tensors, raw)
        }
    head = len(reply.data) if reply.header == ALL else reply.header
    answer, tail = json.loads(reply.data[:head]), reply.data[head:]
    if format == "infer_json":
        found = {}
        for each in answer["outputs"]:
            values, size = each.get("data"), each.get("parameters", {}).get("binary_data_size", 0)
            if values is None:
                values, tail = tail[:size], tail[size:]
                found[each["name"]] = _of_bytes(values, each["datatype"], each["shape"])
            else:
                found[each["name"]] = np.reshape(values, each["shape"])
        return found
    found = answer.get("predictions", answer.get("outputs"))
    if isinstance(found, dict):
        return found
    if found and isinstance(found[0], dict):
        return {name: [row[name] for row in found] for name in found[0]}
    return {"": found}


def _of_bytes(values: bytes, datatype: str, shape: list[int]) -> np.ndarray:
    types = {datatype: kind for kind, datatype in DATATYPES.items()}
    return np.frombuffer(values, types[datatype]).reshape(shape)

"""The requests of a load, from the rows of a data set: one user and many candidates each, in the formats that the server takes.

    user      drawn by popularity: the user of rank r with a probability of about 1 / r, ranked by their rows in the set
    columns   of the user and the context (`Schema.role`): those of one row of that user, alike for all candidates
    others    of the candidates: of rows drawn from the whole set, one a candidate

A model that was exported with users that candidates share gets the first two once, and the number of candidates.

All bodies are made before the load, so that their making takes no CPU time from the server.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ctrlab.errors import CtrlabError, choose
from ctrlab.schema import Schema

Format = Literal["columns", "binary"]
FORMATS = ("columns", "binary")
"""The formats: TensorFlow Serving's JSON by columns, and the open inference protocol with tensors as bytes."""
TYPES = {"BYTES": pa.string(), "INT32": pa.int32(), "INT64": pa.int64(), "FP32": pa.float32()}
"""{name in the open inference protocol: Arrow's type}."""
SKEW = 1.0
COUNTS = "candidates"
"""The input that holds how many candidates each user has: `ctrlab.serving.inputs.COUNTS`."""


class Body(NamedTuple):
    """A request: its bytes, the number of bytes that are JSON if tensors follow them (else None), and its number of
    candidates.
    """

    data: bytes
    header: int | None
    rows: int


def bodies(
    table: pa.Table,
    schema: Schema,
    inputs: Mapping[str, str],
    *,
    candidates: tuple[int, int],
    count: int,
    format: Format = "columns",
    seed: int = 0,
) -> list[Body]:
    """Makes this number of requests. The same seed gives the same rows in every format.

    Args:
        table: rows of the data set.
        inputs: {name: datatype} of the model's inputs, in the open inference protocol's terms.
        candidates: the smallest and the largest number of candidates per request, drawn uniformly.
    Raises:
        CtrlabError: the set lacks a column of the model, or has text although the model takes numbers; invalid numbers of
            candidates.
        UnknownName: no such format.
    """
    choose("format", format, FORMATS)
    low, high = candidates
    if not 1 <= low <= high:
        raise CtrlabError(f"A request has 1 candidate or more, the least first; received {low} to {high}.")
    if table.num_rows == 0:
        raise CtrlabError("Requests are made of rows; the table has none.")
    write = _columns if format == "columns" else _binary
    drawn = _drawn(table, schema, [name for name in inputs if name != COUNTS], low, high, count, seed)
    return [write(_tensors(rows, schema, inputs), rows.num_rows) for rows in drawn]


def _drawn(table, schema, inputs, low, high, count, seed) -> Iterator[pa.Table]:
    names = dict.fromkeys(name.partition("/")[0] for name in inputs)
    for name in names:
        if name not in schema or name not in table.column_names:
            has = ", ".join(column.name for column in schema.features)
            raise CtrlabError(f"The model takes a column {name}, and data set {schema.name} has {has}: name its own by --data.")
    rng, users = np.random.default_rng(seed), _users(table, schema)
    chance = 1.0 / np.arange(1, len(users) + 1) ** SKEW
    picked = rng.choice(len(users), count, p=chance / chance.sum())
    for rank, rows in zip(picked, rng.integers(low, high + 1, count)):
        of_user = np.full(rows, rng.choice(users[rank]))
        of_items = rng.integers(0, table.num_rows, rows)
        taken = {n: table[n].take(pa.array(of_items if schema.role(n) == "candidate" else of_user)) for n in names}
        yield pa.table(taken)


def _users(table: pa.Table, schema: Schema) -> list[np.ndarray]:
    """The rows of each user, the most active user first. If the schema has no user, each row is one."""
    if not schema.user:
        return list(np.arange(table.num_rows)[:, None])
    codes = pc.dictionary_encode(table[schema.user].combine_chunks().fill_null("")).indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    rows = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    return sorted(rows, key=len, reverse=True)


def _tensors(rows: pa.Table, schema: Schema, inputs: Mapping[str, str]) -> dict[str, tuple[str, pa.Array]]:
    """{input: (its datatype, its values)}."""
    found = {}
    for name, datatype in inputs.items():
        if name == COUNTS:
            found[name] = datatype, pa.array([rows.num_rows], TYPES[datatype])
            continue
        column, _, part = name.partition("/")
        once = COUNTS in inputs and schema.role(column) != "candidate"
        values = (rows[:1] if once else rows)[column].combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if part:
            lengths = pc.list_value_length(values).fill_null(0).to_numpy()
            splits = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
            values = splits if part == "row_splits" else values.flatten()
        text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
        if text != (datatype == "BYTES"):
            has = "text" if text else str(values.type)
            raise CtrlabError(f"The model takes {datatype} for {name}, and the set has {has}: export it with inputs='text'.")
        if values.null_count:
            values = values.fill_null("" if text else getattr(schema[column], "default", 0))
        found[name] = datatype, values.cast(TYPES[datatype])
    return found


def _columns(tensors, rows: int) -> Body:
    return Body(json.dumps({"inputs": {name: values.to_pylist() for name, (_, values) in tensors.items()}}).encode(), None, rows)


def _binary(tensors, rows: int) -> Body:
    given, tail = [], []
    for name, (datatype, values) in tensors.items():
        raw = _packed(values) if datatype == "BYTES" else values.to_numpy().tobytes()
        sized = {"binary_data_size": len(raw)}
        given.append({"name": name, "shape": [len(values)], "datatype": datatype, "parameters": sized})
        tail.append(raw)
    outputs = [{"name": "probabilities", "parameters": {"binary_data": True}}]
    head = json.dumps({"inputs": given, "outputs": outputs}).encode()
    return Body(head + b"".join(tail), len(head), rows)


def _packed(values: pa.Array) -> bytes:
    texts = [text.encode() for text in values.to_pylist()]
    return b"".join(part for text in texts for part in (struct.pack("<I", len(text)), text))

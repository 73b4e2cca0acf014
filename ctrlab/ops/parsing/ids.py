"""Raw values of id columns to ids.

Every implementation takes

    columns: C id columns of a schema; see `ctrlab.schema.IdColumn` for what their encodings are.
    values: C entries. A Categorical has string [B]; a list column has its text, string [B], or its values, ragged string [B,
        (L)]. With the encoding "identity" they are integers instead of strings. Integers of another encoding are its ids already,
        made offline (see `ctrlab.data.encode`).

and returns C entries of int64 ids: [B], or ragged [B, (L)] with int64 splits. In text, empty parts are ignored. A Sequence keeps
its last `max_length` values. The lengths of the lists are the differences of the splits, `ids.row_lengths()`: they need no op
like the SparseSequenceLength of the contest's winners. Ids of "hash" lie in [0, buckets). In a "vocabulary" -1 means an unknown
word. An "identity" value that is no whole number in [0, buckets) is an error; `reference` and `fused` name its column and row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence as Entries

import tensorflow as tf

from ctrlab import _native
from ctrlab.data.strings import split
from ctrlab.ops.op import Op
from ctrlab.ops.parsing import raw
from ctrlab.ops.references import ids as definition
from ctrlab.ops.references.raw import agree
from ctrlab.schema import Categorical, IdColumn, Sequence

Ids = tf.Tensor | tf.RaggedTensor


def baseline(columns: Entries[IdColumn], values: Entries) -> list[Ids]:
    """The library's own ops, column by column: split, drop empty parts, slice, hash."""
    agree(columns, values)
    return [_column(column, value) for column, value in zip(columns, values)]


def _column(column: IdColumn, values) -> Ids:
    if not isinstance(column, Categorical) and not isinstance(values, tf.RaggedTensor):
        values = split(values, column.separator)
    if isinstance(column, Sequence):
        values = values[:, -column.max_length :]  # [B, (L <= max_length)]: the newest
    if isinstance(values, tf.RaggedTensor):
        return values.with_flat_values(_encode(column, values.flat_values))
    return _encode(column, values)


def _encode(column: IdColumn, values: tf.Tensor) -> tf.Tensor:
    if values.dtype.is_integer and column.encoding == "hash":  # a lookup checks them
        return tf.cast(values, tf.int64)
    if column.encoding == "hash":
        return tf.strings.to_hash_bucket_fast(values, column.buckets)
    if column.encoding == "vocabulary" and values.dtype == tf.string:
        # A handful of words: comparing with each needs no lookup table, so nothing has to be initialized or saved.
        equal = tf.equal(values[:, None], tf.constant(column.vocabulary)[None, :])  # [n, words]
        return tf.where(tf.reduce_any(equal, 1), tf.argmax(equal, 1), -1)
    lowest = -1 if column.encoding == "vocabulary" else 0  # -1 is an unknown word
    rule = f"Ids of column {column.name!r} must be whole numbers in [{lowest}, {column.buckets}); received"
    if values.dtype == tf.string:
        whole = tf.strings.regex_full_match(values, r"\s*[-+]?0*[0-9]{1,19}\s*")
        with tf.control_dependencies(_require(tf.reduce_all(whole), rule, tf.boolean_mask(values, ~whole)[:1])):
            values = tf.strings.to_number(values, tf.int64)
    values = tf.cast(values, tf.int64)
    least, most = tf.reduce_min(values), tf.reduce_max(values)
    good, received = (least >= lowest) & (most < column.buckets), tf.where(least < lowest, least, most)
    with tf.control_dependencies(_require(good, rule, received)):
        return tf.identity(values)


def _require(good: tf.Tensor, rule: str, received: tf.Tensor) -> list[tf.Operation]:
    """Uses the raw assertion op, because the message of `tf.debugging.Assert` is different when it runs eagerly."""
    check = tf.raw_ops.Assert(condition=good, data=[rule, received])
    return [] if check is None else [check]


def stacked(columns: Entries[IdColumn], values: Entries) -> list[Ids]:
    """Concatenates columns of one encoding, so that a few long ops do the work of many short ones. It stacks columns of text;
    columns with other input are processed separately.
    """
    agree(columns, values)
    groups: dict[tuple, list[int]] = {}
    for c, (column, value) in enumerate(zip(columns, values)):
        alike = dataclasses.replace(
            column, name="alike", table="alike", **({"of": "", "negative_of": ""} if isinstance(column, Sequence) else {})
        )
        text = not isinstance(value, tf.RaggedTensor) and value.dtype == tf.string
        groups.setdefault((type(column), alike, None if text else c), []).append(c)
    found: dict[int, Ids] = {}
    for (_, alike, _), members in groups.items():
        if len(members) == 1:
            found[members[0]] = _column(columns[members[0]], values[members[0]])
            continue
        ids = _column(alike, tf.concat([values[c] for c in members], axis=0))  # [k * B] or [k * B, (L)]
        rows = tf.shape(values[members[0]], tf.int64)[0]
        found |= {c: ids[i * rows : (i + 1) * rows] for i, c in enumerate(members)}
    return [found[c] for c in range(len(columns))]


def fused(columns: Entries[IdColumn], values: Entries) -> list[Ids]:
    """One compiled op for all columns. Ids have no gradient.

    Raises:
        CtrlabError: columns and values do not agree in number. InvalidArgumentError: rows do not agree, or an identity value is
            not a whole number in its range. NativeLibraryError: there is no compiled library for this TensorFlow.
    """
    agree(columns, values)
    values = [v if isinstance(v, tf.RaggedTensor) else tf.convert_to_tensor(v) for v in values]
    encodings = ["identity" if v.dtype.is_integer and c.encoding == "hash" else c.encoding for c, v in zip(columns, values)]
    given = raw.describe(columns, values, [tf.int64] * len(columns))
    lists = [layout != "single" for layout in given["layouts"]]
    ids, splits = _native.library().ops.ctrlab_parse_ids(
        **given,
        C=len(columns),
        L=sum(lists),
        max_lengths=[column.max_length if isinstance(column, Sequence) else 0 for column in columns],
        encodings=encodings,
        buckets=[column.buckets for column in columns],
        words=[word for column in columns if column.encoding == "vocabulary" for word in column.vocabulary],
    )
    splits = iter(splits)
    return [
        tf.RaggedTensor.from_row_splits(flat, next(splits), validate=False) if is_list else flat
        for flat, is_list in zip(ids, lists)
    ]


tf.no_gradient("Ctrlab>ParseIds")


OP = Op(
    "parse_ids",
    rung="parsing",
    definition=definition,
    baseline=baseline,
    others={"stacked": stacked},
    fused=fused,
    differentiable=0,
)

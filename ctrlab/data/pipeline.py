"""Builds a tf.data pipeline of batches from a source.

CSV and TFRecord are read as the original models read them: records are ordered, batched, then decoded one batch at a time.
Parquet is read by columns, and only row numbers are ordered.
"""

from __future__ import annotations

import tensorflow as tf

from ctrlab.data import csv, parquet, tfrecord
from ctrlab.data.source import Reading, Source
from ctrlab.data.values import least_id, rule
from ctrlab.schema import Column, IdColumn, Label, Schema, entry_dtype


def batches(reading: Reading, batch_size: int, drop_remainder: bool) -> tf.data.Dataset:
    """See `ctrlab.data.read`."""
    source, order = reading.source, reading.order
    if source.format == "parquet":
        return parquet.batches(source, order, batch_size, drop_remainder)
    decode = decoder(source)

    @tf.autograph.experimental.do_not_convert
    def decoded(batch: tf.Tensor) -> tuple[dict, tf.Tensor]:
        with tf.name_scope(reading.scope):  # by which `faults` knows whose error it is
            return features_and_labels(decode(batch), source.schema)

    batched = order(records(source)).batch(batch_size, drop_remainder=drop_remainder)
    return batched.map(decoded, num_parallel_calls=tf.data.AUTOTUNE)


def records(source: Source) -> tf.data.Dataset:
    """The rows of CSV or TFRecord files in file order: string []."""
    if source.format == "csv":
        return csv.lines(source.files, source.schema)
    files = [str(path) for path in source.files]
    return tf.data.TFRecordDataset(files, compression_type="GZIP" if source.format == "tfrecord.gz" else None)


def decoder(source: Source):
    """A function that decodes records, string [B], into columns by name, and checks labels, numbers and ids."""
    decode = csv.decode if source.format == "csv" else tfrecord.decode

    def checked(records: tf.Tensor) -> dict:
        columns = decode(records, schema=source.schema, unsplit=source.unsplit)
        numbers = [c for c in source.schema.columns if entry_dtype(c) != "string" and not source.unsplit(c)]
        with tf.control_dependencies([_require_good(c, columns[c.name]) for c in numbers]):
            return columns | {c.name: tf.identity(columns[c.name]) for c in numbers}

    return checked


def _require_good(column: Column, values: tf.Tensor | tf.RaggedTensor) -> tf.Operation:
    """Fails if a value breaks `ctrlab.data.values.rule`. `faults` then reports its file and line."""
    values = values.flat_values if isinstance(values, tf.RaggedTensor) else values
    if isinstance(column, IdColumn):
        ids = tf.cast(values, tf.int64)
        good = (ids >= least_id(column)) & (ids < column.buckets)
    elif not isinstance(column, Label):
        good = tf.math.is_finite(values)
    elif column.soft:
        good = (values >= 0) & (values <= 1)
    else:
        good = (values == 0) | (values == 1)
    said = f"Column {column.name!r} must {rule(column)}."
    return tf.raw_ops.Assert(condition=tf.reduce_all(good), data=[said])  # raw: it says the same when `faults` runs it eagerly


def features_and_labels(columns: dict, schema: Schema) -> tuple[dict, tf.Tensor]:
    features = {column.name: columns[column.name] for column in schema.features}
    return features, tf.stack([columns[label.name] for label in schema.labels], axis=1)  # labels [B, K]

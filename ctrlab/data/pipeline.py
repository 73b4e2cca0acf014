"""Builds a tf.data pipeline of batches from a source.

CSV and TFRecord are read as the original models read them: records are ordered, batched, then decoded one batch at a time.
Parquet is read by columns, and only row numbers are ordered.
"""

from __future__ import annotations

from functools import partial

import tensorflow as tf

from ctrlab.data import csv, parquet, tfrecord
from ctrlab.data.source import Order, Source
from ctrlab.features import Schema


def batches(source: Source, order: Order, batch_size: int, drop_remainder: bool) -> tf.data.Dataset:
    """See `ctrlab.data.read`."""
    if source.format == "parquet":
        return parquet.batches(source, order, batch_size, drop_remainder)
    decode = decoder(source)

    @tf.autograph.experimental.do_not_convert
    def decoded(batch: tf.Tensor) -> tuple[dict, tf.Tensor]:
        return features_and_labels(decode(batch), source.schema)

    batched = order(records(source)).batch(batch_size, drop_remainder=drop_remainder)
    return batched.map(decoded, num_parallel_calls=tf.data.AUTOTUNE)


def records(source: Source) -> tf.data.Dataset:
    """The rows of CSV or TFRecord files in file order: string []."""
    files = [str(path) for path in source.files]
    if source.format == "csv":
        csv.check_text(source.files)
        return tf.data.TextLineDataset(files)
    return tf.data.TFRecordDataset(files, compression_type="GZIP" if source.format == "tfrecord.gz" else None)


def decoder(source: Source):
    """The function from records, string [B], to columns by name."""
    decode = csv.decode if source.format == "csv" else tfrecord.decode
    return partial(decode, schema=source.schema, unsplit=source.unsplit)


def features_and_labels(columns: dict, schema: Schema) -> tuple[dict, tf.Tensor]:
    features = {column.name: columns[column.name] for column in schema.features}
    return features, tf.stack([columns[label.name] for label in schema.labels], axis=1)  # labels [B, K]

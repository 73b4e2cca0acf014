"""`read`: one function that reads batches from files of every format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ctrlab.data.faults import remember
from ctrlab.data.source import Files, Order, Source, find_files, require_schema
from ctrlab.errors import CtrlabError, choose
from ctrlab.schema import Schema

if TYPE_CHECKING:
    import tensorflow as tf

    from ctrlab.data.dealing import Dealing


def read(
    files: Files,
    schema: Schema,
    *,
    batch_size: int,
    format: str | None = None,
    lists: Literal["ragged", "text"] = "ragged",
    shuffle: int = 0,
    seed: int | None = None,
    epochs: int = 1,
    drop_remainder: bool = False,
    shard: tuple[int, int] = (0, 1),
    start: int = 0,
    prefetch: int = 2,
) -> tf.data.Dataset:
    """Batches of (features by name, labels float32 [B, K]). Every format gives the same rows in the same order.

    Features are float32 [B] (Numeric), string [B] (Categorical; int64 for the encoding "identity"), and for list columns
    RaggedTensors [B, (L)] with int64 row splits: string or int64 ids, float32 numbers. Labels come in the schema's order. With an
    encoded schema (see `ctrlab.data.encode`) ids are int32, and all lists are ragged except lists of numbers.

    Iterate inside `explained()`: a bad row then raises one clear sentence in place of a TensorFlow error.

    Args:
        files: a path, several, or a folder (all files of one format in it, by name).
        format: "csv", "tfrecord", "tfrecord.gz" or "parquet"; default: from the file names.
        lists: "text" leaves every list column unsplit, string [B], as in a CSV line.
        shuffle: size of the shuffle buffer in rows; 0 keeps the files' order. Each epoch has its own order.
        seed: makes the shuffled order repeatable (together with `tf.random.set_seed`, if that is used).
        epochs: passes over the rows, -1 for no end. A batch may span the end of an epoch.
        drop_remainder: leave out a last batch of fewer than `batch_size` rows.
        shard: (index, count): the worker `index` of `count` workers gets the rows i with i % count == index.
        start: skip this many batches, to continue from a checkpoint. Skipped rows are ordered but not decoded. If rows are
            shuffled, the remaining batches are the same only with a `seed`.
        prefetch: number of batches that are read ahead and kept in memory.
    Raises:
        BadData: a file is missing, empty, of another format or lacks a column. BadSchema: `schema` is not a schema.
        CtrlabError: an argument is out of range.

    >>> for features, labels in read("train.parquet", schema, batch_size=512):     # doctest: +SKIP
    ...     ...
    """
    require_schema(schema)
    if batch_size < 1:
        raise CtrlabError(f"batch_size must be at least 1; received {batch_size}.")
    if start < 0:
        raise CtrlabError(f"start is a number of batches to leave out, at least 0; received {start}.")
    if prefetch < 1:
        raise CtrlabError(f"prefetch is a number of batches, at least 1; received {prefetch}.")
    choose("form of lists", lists, ("ragged", "text"))
    order = Order(shuffle, seed, epochs, shard, start * batch_size)
    paths, format = find_files(files, format)
    from ctrlab.data import pipeline  # here, because it imports TensorFlow

    source = Source(paths, format, schema, lists)
    return pipeline.batches(remember(source, order), batch_size, drop_remainder).prefetch(prefetch)


def read_dealt(
    files: Files,
    schema: Schema,
    dealing: Dealing,
    worker: int,
    *,
    lists: Literal["ragged", "text"] = "ragged",
    prefetch: int = 2,
) -> tf.data.Dataset:
    """The batches of one of several workers, from Parquet files, in the form that `read` gives. Every worker has the same number
    of batches; the last ones of an epoch are smaller, and may have no rows.

    Args:
        dealing: how the rows of all files are dealt out.
        worker: the worker's number, from 0.
        lists, prefetch: as in `read`.
    Raises:
        BadData: a file is missing, empty, not a Parquet file, or lacks a column. CtrlabError: the files have another format, or
            not as many rows as are dealt out.
    """
    require_schema(schema)
    choose("form of lists", lists, ("ragged", "text"))
    paths, format = find_files(files)
    if format != "parquet":
        raise CtrlabError(
            f"Several workers read Parquet files, of which each decodes its own rows alone; received {paths[0]}, {format}: "
            'convert it with `ctrlab data convert`, or take the rung "parquet".'
        )
    from ctrlab.data import parquet  # here, because it imports TensorFlow

    source = Source(paths, format, schema, lists)
    remember(source, Order(shuffle=0, seed=None, epochs=-1, shard=(0, 1)))
    return parquet.dealt(source, dealing, worker).prefetch(prefetch)

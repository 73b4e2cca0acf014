"""Measures the read speed of each file format: `ctrlab bench input`.

    words   csv, tfrecord, tfrecord.gz, parquet     read, split into columns, hash words to ids in the graph
    ids     parquet of ids, LZ4 and zstd            read; the file already holds the ids ("encoded")
    pyarrow the same two files                      decode to Arrow's columns only, with the same number of threads

Whole passes are timed, from opening a file to its last batch, so that no row is decoded outside the measured time. Files are
large enough that opening them does not matter. A batch counts when Python has it.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf

from ctrlab import data, profiles
from ctrlab.data.outputs import GROUP_ROWS
from ctrlab.models.blocks import Encoder
from ctrlab.profiling.timing import Comparison, Interval, compare

BASELINE = "csv"
BATCHES = (512, 16_384)
CODECS = ("lz4", "zstd")


def bench_input(name: str, profile: str | None = None) -> dict[int, Comparison]:
    """Reads a data set in every format: {examples per batch: seconds per example}.

    Raises:
        UnknownName: no such data set or profile. CtrlabError: the cache can't be written.
    """
    size = profiles.current(profile)
    ids = 4_096 if size.name == "tiny" else 8 * GROUP_ROWS  # rows per pass over ids; a pass over words reads the whole set
    schema = data.schema(name)
    with tempfile.TemporaryDirectory() as folder:
        files = _recompressed(data.prepare(name, profile=size, encoded_for=schema).train, ids, Path(folder))
        comparisons = {}
        for batch in BATCHES:
            words = {format: data.prepare(name, profile=size, format=format) for format in data.FORMATS}
            rows = {format: found.rows for format, found in words.items()}
            passes = {format: partial(_read, _hashed(found, batch)) for format, found in words.items()}
            for codec, path in files.items():
                read, alone = f"parquet of ids, {codec}", f"pyarrow alone, {codec}"
                passes[read] = partial(_read, data.read(path, schema.encoded(), batch_size=batch))
                passes[alone] = partial(_read_alone, path)
                rows |= {read: ids, alone: ids}
            found = compare(passes, lambda i: (), baseline=BASELINE, repetitions=size.repetitions, min_seconds=0)
            samples = {variant: [s / rows[variant] for s in m.samples] for variant, m in found.measurements.items()}
            comparisons[batch] = Comparison.of_samples(samples, baseline=BASELINE, profile=size.name)
    return comparisons


def share_of_pyarrow(comparison: Comparison, variant: str) -> Interval | None:
    """Rows per second as a fraction of pyarrow's on the same file; None for other variants."""
    if not variant.startswith("parquet of ids"):
        return None
    return comparison.ratio(variant, to=variant.replace("parquet of ids", "pyarrow alone"))


def _recompressed(files: tuple[Path, ...], rows: int, folder: Path) -> dict[str, Path]:
    """{codec: a file with `rows` rows}."""
    table = pa.concat_tables(map(pq.read_table, files))
    table = pa.concat_tables([table] * -(-rows // len(table))).slice(0, rows)
    paths = {codec: folder / f"{codec}.parquet" for codec in CODECS}
    for codec, path in paths.items():
        pq.write_table(table, path, compression=codec, row_group_size=GROUP_ROWS)
    return paths


def _hashed(files: data.DataFiles, batch: int) -> tf.data.Dataset:
    """One pass over the rows, with the words hashed in the graph."""
    encoder = Encoder(files.schema)

    @tf.autograph.experimental.do_not_convert
    def ids(features: dict, labels: tf.Tensor) -> tuple:
        return features | encoder.ids(features), labels

    return files.read_train(batch).map(ids).prefetch(2)


def _read(batches: tf.data.Dataset) -> None:
    for _ in batches:
        pass


def _read_alone(path: Path) -> None:
    for _ in pq.ParquetFile(path).iter_batches(GROUP_ROWS):
        pass

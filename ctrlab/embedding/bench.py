"""An embedding variable's lookup beside a dense table's, which knows its places, and beside TensorFlow's own hash tables.

    gather   rows of a dense variable of the same size: one random row an id, where ours reads a bucket of its index first
    tables   ours beside tf.lookup.experimental's MutableHashTable and DenseHashTable, of fewer keys: they take minutes to fill

Ids are Zipf-like: rank r comes with a probability of about 1 / r, and ranks lie anywhere in the tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ctrlab import profiles
from ctrlab.embedding.initial_values import hash_keys
from ctrlab.embedding.state import TableState
from ctrlab.embedding.variable import EmbeddingVariable
from ctrlab.profiling.roofline import ceilings
from ctrlab.profiling.timing import Comparison, compare
from ctrlab.profiling.work import Work

DIM = 16
BATCH = 65_536
KEYS = {"tiny": (20_000, 5_000), "lesson": (2_000_000, 500_000), "full": (10_000_000, 2_000_000)}
AT_A_TIME = 1_000_000  # keys that are put into a table in one call
METADATA = 8  # bytes a key that are asked for: frequency and last step
OURS = "embedding variable"


@dataclass(frozen=True)
class EmbeddingBench:
    """One run of the bench.

    Attributes:
        keys, table_keys: of the two comparisons.
        gather, tables: seconds a batch.
        bytes_per_key, peak_per_key: bytes the variable of `keys` keys holds a key, at the end and at most while it grew.
    """

    keys: int
    table_keys: int
    gather: Comparison
    tables: Comparison
    bytes_per_key: float
    peak_per_key: float

    @property
    def floor_per_key(self) -> int:
        """Bytes of key, value and metadata."""
        return 8 + 4 * DIM + METADATA

    def to_json(self) -> dict:
        sizes = {"keys": self.keys, "table_keys": self.table_keys, "dim": DIM, "batch": BATCH}
        memory = {"bytes_per_key": self.bytes_per_key, "peak_per_key": self.peak_per_key, "floor_per_key": self.floor_per_key}
        return {**sizes, **memory, "gather": self.gather.to_json(), "tables": self.tables.to_json()}


def bench_embedding(profile: str | None = None) -> EmbeddingBench:
    """Fills tables and times lookups of a batch in them.

    Raises:
        UnknownName: no such profile. NativeLibraryError: the compiled library is missing.
    """
    keys, table_keys = KEYS[profiles.current(profile).name]
    ours = filled(keys)
    stats = ours.stats()
    gather = _time({"tf.gather": _gather(keys), OURS: ours.lookup}, keys, "tf.gather", profile)
    peers = {"MutableHashTable": _mutable(table_keys), "DenseHashTable": _dense(table_keys), OURS: filled(table_keys).lookup}
    tables = _time(peers, table_keys, OURS, profile)
    return EmbeddingBench(keys, table_keys, gather, tables, stats.bytes / keys, stats.peak_bytes / keys)


def filled(keys: int) -> EmbeddingVariable:
    """A variable in which key k's row is k, D times."""
    variable = EmbeddingVariable("bench", DIM)
    for first, values in _rows(keys):
        n = len(values)
        state = TableState(np.arange(first, first + n), values, {}, np.ones(n, np.int64), np.ones(n, np.int64))
        variable.load_state(state, how="more")
    return variable


def zipf_ids(keys: int, seed: int) -> tf.Tensor:
    """int64 [BATCH] in [0, keys)."""
    ranks = (keys ** np.random.default_rng(seed).random(BATCH)).astype(np.int64)
    return tf.constant((hash_keys(ranks) % np.uint64(keys)).astype(np.int64))


def _time(variants: dict, keys: int, baseline: str, profile: str | None) -> Comparison:
    fetched = np.mean([len(np.unique(zipf_ids(keys, seed))) for seed in range(3)])
    work = Work(bytes=BATCH * (8 + 4 * DIM), random_rows=fetched, row_bytes=4 * DIM)
    traced = {name: tf.function(fn, autograph=False) for name, fn in variants.items()}
    return compare(
        traced,
        lambda i: (zipf_ids(keys, i),),
        baseline=baseline,
        repetitions=profiles.current(profile).repetitions,
        work=work,
        ceilings=ceilings(),
    )


def _rows(keys: int):
    """(first key, its and the next keys' rows), a piece after the other."""
    for first in range(0, keys, AT_A_TIME):
        n = min(AT_A_TIME, keys - first)
        yield first, np.repeat(np.arange(first, first + n, dtype=np.float32), DIM).reshape(n, DIM)


def _gather(keys: int):
    with tf.device("CPU:0"):
        table = tf.Variable(np.concatenate([rows for _, rows in _rows(keys)]))
    return lambda ids: tf.gather(table, ids)


def _mutable(keys: int):
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, tf.zeros([DIM]))
    _insert(table, keys)
    return table.lookup


def _dense(keys: int):
    buckets = 1 << (2 * keys - 1).bit_length()
    table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, tf.zeros([DIM]), -1, -2, initial_num_buckets=buckets)
    _insert(table, keys)
    return table.lookup


def _insert(table, keys: int) -> None:
    for first, rows in _rows(keys):
        table.insert(tf.range(first, first + len(rows), dtype=tf.int64), rows)

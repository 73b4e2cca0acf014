"""Lookup and training step of an embedding variable, compared with a dense table and with TensorFlow's hash tables.

    gather   rows of a dense variable of the same size: one random access per id; ours reads a bucket of its index first
    step     lookup, merged gradient and Adagrad, compared with our fused ops on a dense variable of the same size
    tables   compared with tf.lookup.experimental's MutableHashTable and DenseHashTable, with fewer keys: they fill slowly

Ids are Zipf-like: rank r has a probability of about 1 / r, and a permutation scatters the ranks over the table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ctrlab import profiles
from ctrlab.embedding.initial_values import hash_keys
from ctrlab.embedding.table import ops as table_ops
from ctrlab.embedding.table_state import TableState
from ctrlab.embedding.variable import EmbeddingVariable
from ctrlab.ops import lookup as dense_lookup
from ctrlab.ops import sparse_update
from ctrlab.ops.lookup import Layout
from ctrlab.ops.sparse_update import Rule
from ctrlab.profiling.roofline import ceilings
from ctrlab.profiling.timing import Comparison, compare
from ctrlab.profiling.work import Work

DIM = 16
BATCH = 65_536
KEYS = {"tiny": (20_000, 5_000), "lesson": (2_000_000, 500_000), "full": (10_000_000, 2_000_000)}
AT_A_TIME = 1_000_000  # keys that are put into a table in one call
METADATA = 8  # bytes per key: frequency and last step
OURS, FUSED = "embedding variable", "dense table, fused ops"
RULE, RATE = Rule("adagrad"), 0.01


@dataclass(frozen=True)
class EmbeddingBench:
    """One run of the bench.

    Attributes:
        keys: number of keys in `gather` and `step`. table_keys: the same in `tables`.
        gather, step, tables: seconds per batch.
        bytes_per_key, peak_per_key: bytes per key of the variable with `keys` keys, at the end and at the peak of its growth.
    """

    keys: int
    table_keys: int
    gather: Comparison
    step: Comparison
    tables: Comparison
    bytes_per_key: float
    peak_per_key: float

    @property
    def floor_per_key(self) -> int:
        """Bytes per key for key, value and metadata: the least that a table can take."""
        return 8 + 4 * DIM + METADATA

    def to_json(self) -> dict:
        sizes = {"keys": self.keys, "table_keys": self.table_keys, "dim": DIM, "batch": BATCH}
        memory = {"bytes_per_key": self.bytes_per_key, "peak_per_key": self.peak_per_key, "floor_per_key": self.floor_per_key}
        comparisons = {name: getattr(self, name).to_json() for name in ("gather", "step", "tables")}
        return {**sizes, **memory, **comparisons}


def bench_embedding(profile: str | None = None) -> EmbeddingBench:
    """Fills tables and times lookups and training steps of a batch.

    Raises:
        UnknownName: no such profile. NativeLibraryError: the compiled library is missing.
    """
    keys, table_keys = KEYS[profiles.current(profile).name]
    ours = filled(keys)
    stats = ours.stats()
    gather = _time({"tf.gather": _gather(keys), OURS: ours.lookup}, keys, "tf.gather", profile)
    step = _time({FUSED: _step_of_dense(keys), OURS: _step_of(ours)}, keys, FUSED, profile, rows_of_key=2)
    peers = {"MutableHashTable": _mutable(table_keys), "DenseHashTable": _dense(table_keys), OURS: filled(table_keys).lookup}
    tables = _time(peers, table_keys, OURS, profile)
    return EmbeddingBench(keys, table_keys, gather, step, tables, stats.bytes / keys, stats.peak_bytes / keys)


def filled(keys: int) -> EmbeddingVariable:
    """A variable in which all D numbers of key k's row are k."""
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


def _time(variants: dict, keys: int, baseline: str, profile: str | None, rows_of_key: int = 1) -> Comparison:
    """Times a function on batches of ids. `rows_of_key`: 1 for the value alone, more if the step also reads and writes slots."""
    fetched = np.mean([len(np.unique(zipf_ids(keys, seed))) for seed in range(3)])
    work = Work(bytes=rows_of_key * BATCH * (8 + 4 * DIM), random_rows=rows_of_key * fetched, row_bytes=4 * DIM)
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
    """Yields chunks: (first key, rows of the keys from there on)."""
    for first in range(0, keys, AT_A_TIME):
        n = min(AT_A_TIME, keys - first)
        yield first, np.repeat(np.arange(first, first + n, dtype=np.float32), DIM).reshape(n, DIM)


def _dense_table(keys: int) -> tf.Variable:
    with tf.device("CPU:0"):
        return tf.Variable(np.concatenate([rows for _, rows in _rows(keys)]))


def _gather(keys: int):
    table = _dense_table(keys)
    return lambda ids: tf.gather(table, ids)


def _d_out() -> tf.Tensor:
    return tf.constant(np.random.default_rng(0).standard_normal((BATCH, DIM), dtype=np.float32))


def _step_of(variable: EmbeddingVariable):
    """A function of ids [n] that takes a step, and returns the rows [n, D] as they were before it."""
    variable.set_slots(RULE.slots)
    number, d_out = tf.Variable(0, dtype=tf.int64), _d_out()

    def step(ids):
        with tf.GradientTape() as tape:
            out = variable.lookup(ids, training=True)
        gradient = tape.gradient(out, variable.proxy.value, output_gradients=d_out[: tf.size(ids)])
        table_ops.step(RULE, [(variable, gradient)], tf.constant(RATE), number.assign_add(1))
        return out

    return step


def _step_of_dense(keys: int):
    """The same for a dense variable, by the fused ops."""
    table, d_out, layout = _dense_table(keys), _d_out(), Layout((0,), ("rows",), (0,))
    with tf.device("CPU:0"):
        slots = {name: tf.Variable(tf.fill(table.shape, value)) for name, value in RULE.slots.items()}

    def step(ids):
        with tf.GradientTape() as tape:
            (out,) = dense_lookup.fused([table], [ids], layout)
        gradient = tape.gradient(out, table, output_gradients=d_out[: tf.size(ids)])
        sparse_update.fused(RULE, [(table, slots, gradient)], tf.constant(RATE), tf.constant(1.0))
        return out

    return step


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

"""Bench of the length of each row of a sparse matrix."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ctrlab.ops.benches.bench import Bench
from ctrlab.ops.benches.histories import LONGEST, real_lengths
from ctrlab.ops.parsing.sequence_length import OP


def of_histories(small: bool = False) -> Bench:
    """Real histories as a sparse matrix."""
    rows = 16 if small else 512
    lengths = real_lengths(np.random.default_rng(0), rows)
    row_of = np.repeat(np.arange(rows), lengths)
    indices = np.stack([row_of, np.concatenate([np.arange(length) for length in lengths])], axis=1)
    sparse = tf.SparseTensor(indices, tf.ones(len(indices)), [rows, LONGEST])
    return Bench(
        shape=f"B={rows}, N={len(indices)}",
        variants={name: tf.function(way, autograph=False) for name, way in OP.ways.items()},
        make_inputs=lambda call: (tf.SparseTensor(tf.identity(sparse.indices), sparse.values, sparse.dense_shape),),
        work=OP.work(len(indices), rows),
    )


BENCHES = {"sequence_length": of_histories}

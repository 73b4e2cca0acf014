"""The length of each row of a sparse matrix: the greatest column that holds a value, plus 1; 0 where there is none.

It is not the number of values: a row with columns 0 and 2 has length 3. Every implementation takes a tf.SparseTensor [B, L] and
returns int64 [B]; there is no gradient.
"""

from __future__ import annotations

import tensorflow as tf

from ctrlab import _native
from ctrlab.ops.op import Op
from ctrlab.ops.references import sequence_length as definition


def baseline(sparse: tf.SparseTensor) -> tf.Tensor:
    """What tf.feature_column.sequence_numeric_column and its like do."""
    rows, columns = sparse.indices[:, 0], sparse.indices[:, 1]
    # Of a row without values the maximum is the least of all numbers.
    return tf.maximum(tf.math.unsorted_segment_max(columns + 1, rows, sparse.dense_shape[0]), 0)


def fused(sparse: tf.SparseTensor) -> tf.Tensor:
    """The compiled op.

    Raises:
        InvalidArgumentError: it is no matrix, or an index lies outside of it.
    """
    return _native.library().ops.ctrlab_sequence_length(indices=sparse.indices, dense_shape=sparse.dense_shape)


tf.no_gradient("Ctrlab>SequenceLength")


OP = Op("sequence_length", rung="parsing", definition=definition, baseline=baseline, fused=fused, differentiable=0)

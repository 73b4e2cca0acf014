"""Merges a sparse gradient: sums the rows of equal ids, so that each id comes once.

    values[j] = the sum of the rows n with ids[n] = indices[j]

A nonlinear optimizer needs the merge: an Adagrad step on two rows of one id differs from the step on their sum.

Every way takes

    gradient: tf.IndexedSlices of rows float32 [n, ...] and ids [n] in [0, V), in any order. No `dense_shape` is needed.
    shape: [V, ...] of its variable, fully known.

and returns tf.IndexedSlices with each id once: in order of first appearance by the baseline, ascending by the fused op.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ctrlab import _native
from ctrlab.ops.op import Op
from ctrlab.ops.references import merge as definition


def baseline(gradient: tf.IndexedSlices, shape: tf.TensorShape) -> tf.IndexedSlices:
    """unique + unsorted_segment_sum."""
    unique, place = tf.unique(gradient.indices)
    sums = tf.math.unsorted_segment_sum(gradient.values, place, tf.size(unique))
    return tf.IndexedSlices(sums, unique, tf.constant(list(shape), tf.int64))


def fused(gradient: tf.IndexedSlices, shape: tf.TensorShape) -> tf.IndexedSlices:
    """The compiled op of the lookup's gradient. A gradient which that op made is returned as it is. Rows of the id -1 are
    dropped.

    Raises:
        InvalidArgumentError: an id is out of range. NativeLibraryError: there is no compiled library for this TensorFlow.
    """
    if is_merged(gradient):
        return gradient
    rows, *rest = shape
    width = int(np.prod(rest, dtype=np.int64))
    merged = _native.library().ops.ctrlab_lookup_gradient(
        ids=[tf.cast(gradient.indices, tf.int64)],
        splits=[tf.zeros([0], tf.int64)],
        d_out=[tf.reshape(gradient.values, (-1, width))],
        T=1,
        table_rows=[rows],
        table_dims=[width],
        table_of=[0],
        output_of=[0],
        combiners=["rows"],
    )
    rows = tf.reshape(merged.merged_rows[0], (-1, *rest))  # [u, ...]
    return tf.IndexedSlices(rows, merged.merged_ids[0], tf.constant(list(shape), tf.int64))


def is_merged(gradient: tf.IndexedSlices) -> bool:
    """Whether the compiled op made this sparse gradient. Only a graph shows it; merging a merged gradient again changes
    nothing."""
    return tf.is_symbolic_tensor(gradient.indices) and gradient.indices.op.type == "Ctrlab>LookupGradient"


OP = Op("merge", rung="lookup", definition=definition, baseline=baseline, fused=fused, differentiable=0)

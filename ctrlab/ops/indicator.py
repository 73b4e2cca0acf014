"""The indicator column: a multi-hot vector of ids times a kernel.

    out[b, o] = sum over columns c, over the ids i of row b in c:  weight_i * kernel[offset_c + i, o]

where offset_c is the sum of the sizes of the columns before c. With O = 1 this is DeepFM's linear term and WDL's wide part. The
baseline makes a one-hot tensor [B, L, V] per column, sums it to [B, V], and multiplies; nearly all of its numbers are zero. The
fused op gathers only the kernel rows that ids name.

Every implementation takes

    columns: C int64 id columns, each a Tensor [B] (one id per example) or a RaggedTensor [B, (L)]. The id -1 means "unknown" and
        contributes nothing; all other ids of column c are in [0, sizes[c]).
    sizes: C ints, the number of ids of each column.
    kernel: float32 [V, O] with V = sum(sizes).
    weights: None for weights of 1, or C entries, each None or float32 and shaped like its ids.

and returns float32 [B, O]. For an id out of range, `reference` and `fused` raise an error with its row and column; the baseline
treats it as a zero row, like TensorFlow's one_hot, and `scatter_nd` does not check.

Source: TensorFlow's feature_column.IndicatorColumn; the scatter form is NicePerf's IndicatorColumnV2 (DeepRec CTR contest).
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from ctrlab import _native
from ctrlab.ops.op import Op
from ctrlab.ops.references import indicator as definition
from ctrlab.ops.references.indicator import agree, offsets

Ids = tf.Tensor | tf.RaggedTensor


def baseline(columns: Sequence[Ids], sizes: Sequence[int], kernel: tf.Tensor, weights=None) -> tf.Tensor:
    """What tf.feature_column.indicator_column computes, op by op, then one matrix multiplication."""
    agree(columns, sizes, weights)
    multi_hot = tf.concat(
        [_indicator_column(ids, size, w) for ids, size, w in zip(columns, sizes, weights or [None] * len(sizes))], axis=1
    )  # [B, V]
    return tf.matmul(multi_hot, kernel)


def scatter_nd(columns: Sequence[Ids], sizes: Sequence[int], kernel: tf.Tensor, weights=None) -> tf.Tensor:
    """One scatter of the weights into the multi-hot matrix [B, V], then the matrix multiplication."""
    places, row_of, values = _joined(columns, sizes, kernel.dtype, weights)
    shape = tf.stack([_rows(columns[0]), tf.constant(sum(sizes), tf.int64)])
    return tf.matmul(tf.scatter_nd(tf.stack([row_of, places], axis=1), values, shape), kernel)


def best_stock(columns: Sequence[Ids], sizes: Sequence[int], kernel: tf.Tensor, weights=None) -> tf.Tensor:
    """Without a multi-hot matrix: a gather of kernel rows, then a segment sum."""
    places, row_of, values = _joined(columns, sizes, kernel.dtype, weights)
    # The gradient of a gather is sparse, and an optimizer would skip the other rows. Behind a reshape the gradient is dense.
    dense = tf.reshape(kernel, kernel.shape)  # [V, O]
    return tf.math.unsorted_segment_sum(tf.gather(dense, places) * values[:, None], row_of, _rows(columns[0]))  # [B, O]


def _joined(columns, sizes, dtype, weights) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The ids of all columns one after another: their kernel rows, their examples and their weights; weight 0 if unknown."""
    agree(columns, sizes, weights)
    places, rows_of, values = [], [], []
    for ids, offset, w in zip(columns, offsets(sizes), weights or [None] * len(sizes)):
        flat, row_of = (ids.values, tf.cast(ids.value_rowids(), tf.int64)) if _ragged(ids) else (ids, tf.range(_rows(ids)))
        known = flat >= 0
        value = tf.ones_like(flat, dtype) if w is None else (w.values if _ragged(w) else w)
        places.append(tf.where(known, flat + offset, 0))
        values.append(tf.where(known, value, 0.0))
        rows_of.append(row_of)
    return tf.concat(places, 0), tf.concat(rows_of, 0), tf.concat(values, 0)


def fused(columns: Sequence[Ids], sizes: Sequence[int], kernel: tf.Tensor, weights=None) -> tf.Tensor:
    """The compiled op; differentiable in `kernel` (a dense gradient) and in `weights`.

    Raises:
        CtrlabError: the numbers of columns, sizes and weights differ, or ids are not int64. InvalidArgumentError: an id is out
            of range, or shapes do not agree. NativeLibraryError: there is no compiled library for this TensorFlow.
    """
    agree(columns, sizes, weights)
    ids = [c.values if _ragged(c) else tf.convert_to_tensor(c) for c in columns]
    # A column with one id per example is passed without splits, so that it costs nothing to describe.
    splits = [tf.cast(c.row_splits, tf.int64) if _ragged(c) else tf.zeros([0], tf.int64) for c in columns]
    values = []
    if weights is not None:
        for flat, w in zip(ids, weights):
            values.append(tf.ones_like(flat, tf.float32) if w is None else (w.values if _ragged(w) else w))
    return _native.library().ops.ctrlab_indicator(ids=ids, splits=splits, weights=values, kernel=kernel, sizes=list(sizes))


@tf.RegisterGradient("Ctrlab>Indicator")
def _fused_gradient(op: tf.Operation, d_out: tf.Tensor) -> list[tf.Tensor | None]:
    count, weighted = op.get_attr("C"), op.get_attr("W")
    inputs = list(op.inputs)
    ids, splits, weights = inputs[:count], inputs[count : 2 * count], inputs[2 * count : 2 * count + weighted]
    d_kernel, d_weights = _native.library().ops.ctrlab_indicator_gradient(
        ids=ids, splits=splits, weights=weights, kernel=inputs[-1], d_out=d_out, sizes=op.get_attr("sizes")
    )
    return [None] * (2 * count) + list(d_weights) + [d_kernel]


def _indicator_column(ids: Ids, size: int, weights) -> tf.Tensor:
    """TensorFlow 2.21's IndicatorColumn._transform_id_weight_pair, for columns that are ids already: [B, size]."""
    if weights is None:
        dense = ids.to_tensor(default_value=-1) if _ragged(ids) else ids[:, None]  # [B, L]
        return tf.reduce_sum(tf.one_hot(dense, depth=size, on_value=1.0, off_value=0.0), axis=-2)
    ids, weights = (x if _ragged(x) else tf.RaggedTensor.from_uniform_row_length(x, 1) for x in (ids, weights))
    known = ids.values >= 0
    indices = tf.stack([tf.cast(ids.value_rowids(), tf.int64), ids.values], axis=1)  # [n, 2]
    return tf.scatter_nd(tf.boolean_mask(indices, known), tf.boolean_mask(weights.values, known), [_rows(ids), size])


def _ragged(x) -> bool:
    return isinstance(x, tf.RaggedTensor)


def _rows(column: Ids):
    return tf.cast(column.nrows(), tf.int64) if _ragged(column) else tf.shape(column, tf.int64)[0]


OP = Op(
    "indicator",
    rung="indicator",
    part="linear",
    definition=definition,
    baseline=baseline,
    best_stock=best_stock,
    others={"scatter_nd": scatter_nd},
    fused=fused,
)

"""The labels that a model trains on, the same ones in `train` and in `fit`.

[B] of a model with one task, or [B, K];  bool, whole numbers or floats;  each from 0 to 1        ->  float32 [B, K]
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from ctrlab.errors import BadData


def shaped(labels, tasks: Sequence[str]) -> tf.Tensor:
    """Labels as float32 [B, K]; their values are checked by `valid`.

    Raises:
        BadData: another shape or type.
    """
    wanted = "[B] or [B, 1]" if len(tasks) == 1 else f"[B, {len(tasks)}]"
    rule = f"Labels must be numbers {wanted}, a column for each of the tasks {', '.join(tasks)}"
    try:
        labels = tf.convert_to_tensor(labels)
    except (TypeError, ValueError):
        raise BadData(f"{rule}; received {type(labels).__name__}: pass one array.") from None
    if not (labels.dtype.is_floating or labels.dtype.is_integer or labels.dtype.is_bool):
        raise BadData(f"{rule}; received {labels.dtype.name}: write 0 and 1.")
    if labels.shape.rank == 1 and len(tasks) == 1:
        labels = labels[:, None]  # [B, 1]
    if not labels.shape.is_compatible_with([None, len(tasks)]):
        raise BadData(f"{rule}; received {_words(labels.shape)}: select these columns.")
    return tf.ensure_shape(tf.cast(labels, tf.float32), [None, len(tasks)])


def valid(labels: tf.Tensor) -> tf.Tensor:
    """`labels`, float32 [B, K], after a check of their values.

    Raises:
        InvalidArgumentError: a label is not in [0, 1], or there is none.
    """
    good = (labels >= 0) & (labels <= 1)  # false for NaN
    check = tf.raw_ops.Assert(
        condition=tf.reduce_all(good) & (tf.size(labels) > 0),
        data=[
            "Labels must be numbers from 0 to 1, and a batch needs at least one row; nothing was changed; received labels",
            tf.boolean_mask(labels, ~good),
        ],
    )
    with tf.control_dependencies([check] if check is not None else []):
        return tf.identity(labels)


def _words(shape: tf.TensorShape) -> str:
    return str([size if size is not None else "B" for size in shape]).replace("'", "")

"""The labels that a model trains on, the same ones in `train` and in `fit`.

[B] of a model with one task, or [B, K];  bool, whole numbers or floats;  each from 0 to 1        ->  float32 [B, K]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf

from ctrlab import masks, whole_batch
from ctrlab.errors import BadData


def shaped(labels, tasks: Sequence[str]) -> tf.Tensor:
    """Labels as float32 [B, K]; their values are checked by `valid`.

    Raises:
        BadData: another shape or type. InvalidArgumentError: another shape, if it is only known when the step runs.
    """
    wanted = "[B] or [B, 1]" if len(tasks) == 1 else f"[B, {len(tasks)}]"
    rule = f"Labels must be numbers {wanted}, a column for each of the tasks {', '.join(tasks)}"
    masks.require_values("labels", labels)
    try:
        labels = tf.convert_to_tensor(labels)
    except (TypeError, ValueError):
        raise BadData(f"{rule}; received {type(labels).__name__}: pass one array.") from None
    if not (labels.dtype.is_floating or labels.dtype.is_integer or labels.dtype.is_bool):
        raise BadData(f"{rule}; received {labels.dtype.name}: write 0 and 1.")
    if labels.shape.rank == 1 and len(tasks) == 1:
        labels = labels[:, None]  # [B, 1]
    if not labels.shape.is_compatible_with([None, len(tasks)]):
        raise BadData(f"{rule}; received the shape {_words(labels.shape)}: select these columns.")
    labels = tf.cast(labels, tf.float32)
    if labels.shape.rank is None or labels.shape[1] is None:
        shape = tf.shape(labels)
        fits = (tf.rank(labels) >= 1) & (tf.reduce_prod(shape[1:]) == len(tasks))  # [B] has one column
        with tf.control_dependencies([tf.raw_ops.Assert(condition=fits, data=[f"{rule}; received the shape", shape])]):
            labels = tf.reshape(labels, [-1, len(tasks)])
    return labels


def valid(labels: tf.Tensor) -> tf.Tensor:
    """`labels`, float32 [B, K], after a check of their values.

    Raises:
        InvalidArgumentError: a label is not in [0, 1], or there is none.
    """
    good = (labels >= 0) & (labels <= 1)  # false for NaN
    check = tf.raw_ops.Assert(
        condition=tf.reduce_all(good) & (whole_batch.rows(labels) > 0),
        data=[
            "Labels must be numbers from 0 to 1, and a batch needs at least one row; nothing was changed; received labels",
            tf.boolean_mask(labels, ~good)[:3],
        ],
    )
    with tf.control_dependencies([check] if check is not None else []):
        return tf.identity(labels)


def weights(given, labels: tf.Tensor | None = None) -> tf.Tensor:
    """Sample weights as float32 [B], after these checks; with `labels`, [B, K], there are as many of them.

    Raises:
        BadData: another shape or type, or a negative, infinite or missing weight. InvalidArgumentError: the same, if it is only
            known when the step runs.
    """
    rule = "Sample weights must be finite numbers [B], not negative, one for each row; nothing was changed; received"
    masks.require_values("sample weights", given)
    try:
        found = tf.convert_to_tensor(given)
    except (TypeError, ValueError):
        raise BadData(f"{rule} {type(given).__name__}: pass one array.") from None
    if not (found.dtype.is_floating or found.dtype.is_integer or found.dtype.is_bool):
        raise BadData(f"{rule} {found.dtype.name}.")
    if not found.shape.is_compatible_with([None] if labels is None else labels.shape[:1]):
        raise BadData(f"{rule} the shape {_words(found.shape)}" + ("." if labels is None else f" for {labels.shape[0]} rows."))
    found = tf.cast(found, tf.float32)
    shape, rows = tf.shape(found), tf.shape(found)[:1] if labels is None else tf.shape(labels)[:1]
    bad = tf.boolean_mask(tf.reshape(found, [-1]), tf.reshape(~(tf.math.is_finite(found) & (found >= 0)), [-1]))
    checks = [
        tf.raw_ops.Assert(condition=_equal(shape, rows), data=[f"{rule} the shape", shape, "for the rows", rows]),
        tf.raw_ops.Assert(condition=tf.equal(tf.size(bad), 0), data=[rule, bad[:3]]),
    ]
    with tf.control_dependencies([check for check in checks if check is not None]):
        return tf.reshape(found, [-1])


def by_class(labels, classes: Mapping[int, float]) -> tf.Tensor:
    """The weight of each row by the class of its label, [B, 1]: float32 [B]; that of a class without one is 1.

    Raises:
        InvalidArgumentError: a label is a share.
    """
    labels = tf.cast(labels, tf.float32)[:, 0]  # [B]
    shares = tf.boolean_mask(labels, (labels > 0) & (labels < 1))
    said = "`class_weight` is for labels 0 and 1, and shares have no class; give each row its `sample_weight`; received labels"
    check = tf.raw_ops.Assert(condition=tf.equal(tf.size(shares), 0), data=[said, shares[:3]])
    with tf.control_dependencies([check] if check is not None else []):
        return tf.where(labels == 1, *(tf.constant(float(classes.get(which, 1.0))) for which in (1, 0)))


def _equal(shape: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    return tf.equal(tf.size(shape), tf.size(other)) & tf.reduce_all(tf.equal(shape, other))


def of_rows(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """`labels`, float32 [B, K], after a check that there are as many of them as rows in `outputs`, [B, K].

    Raises:
        BadData: the numbers differ. InvalidArgumentError: they differ, but are only known when the step runs.
    """
    given, rows = labels.shape[0], outputs.shape[0]
    rule = "A batch must have a label for each row, and a row for each label; nothing was changed; received"
    if given is not None and rows is not None:
        if given != rows:
            raise BadData(f"{rule} {given} labels and {rows} rows.")
        return labels
    given, rows = tf.shape(labels)[0], tf.shape(outputs)[0]
    with tf.control_dependencies([tf.raw_ops.Assert(condition=given == rows, data=[rule, given, "labels and", rows, "rows"])]):
        return tf.identity(labels)


def tasks_of(model, outputs: tf.Tensor) -> tuple[str, ...]:
    """The names of a model's tasks. For a model that is not ours: "label", or "label_0" and so on, one per column of its outputs.

    Raises:
        BadData: the outputs are not one tensor [B, K].
    """
    if hasattr(model, "tasks"):
        return model.tasks
    shape = getattr(outputs, "shape", None)
    if shape is None or len(shape) != 2 or shape[1] is None:
        what = type(outputs).__name__ if shape is None else _words(shape)
        raise BadData(
            f"A model must give logits [B, K], a column for each task; {model.name} gives {what}: add a last layer Dense(K)."
        )
    return ("label",) if shape[1] == 1 else tuple(f"label_{k}" for k in range(shape[1]))


def checked(labels, model, outputs: tf.Tensor) -> tf.Tensor:
    """The labels of rows whose logits or probabilities are `outputs`, [B, K], as float32 [B, K] after all these checks."""
    return of_rows(valid(shaped(labels, tasks_of(model, outputs))), outputs)


def _words(shape: tf.TensorShape) -> str:
    return str([size if size is not None else "B" for size in shape]).replace("'", "")

"""Text operations that readers and parsing ops share."""

from __future__ import annotations

import tensorflow as tf


def split(text: tf.Tensor, separator: str) -> tf.RaggedTensor:
    """Splits text [B] into parts, ragged string [B, (L)]; an empty field has no parts."""
    parts = tf.strings.split(text, separator)  # an empty text gives one empty part
    return tf.ragged.boolean_mask(parts, tf.not_equal(parts, ""))

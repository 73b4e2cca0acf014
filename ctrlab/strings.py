"""What readers and parsing ops both do to text."""

from __future__ import annotations

import tensorflow as tf


def split(text: tf.Tensor, separator: str) -> tf.RaggedTensor:
    """Text [B] -> its parts, ragged string [B, (L)]; an empty field has no parts."""
    parts = tf.strings.split(text, separator)  # one empty part where the text is empty
    return tf.ragged.boolean_mask(parts, tf.not_equal(parts, ""))

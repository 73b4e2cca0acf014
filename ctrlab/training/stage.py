"""The stage: other threads compute the model's input part for the next batches while the model trains on the current one.

    files -> read -> prefetch -> | stage: parse, hash, average | -> depth batches ready -> step: embeddings and the rest

It runs the same code on the same batches in the same order, so the results do not change. It saves at most the time of the
shorter of the two parts, and only if cores are idle during the step: with two busy cores there is little to overlap.

Source: DeepRec's `tf.staged` and SmartStage; in TensorFlow it is a map of the data set.
"""

from __future__ import annotations

import tensorflow as tf


def stage(batches: tf.data.Dataset, model, depth: int) -> tf.data.Dataset:
    """(features, labels), where `model`'s input part has already transformed the raw features.

    Args:
        model: any model with an `encoder`; all six have one.
        depth: number of batches kept ready; 0: no stage.
    """
    if depth == 0:
        return batches

    @tf.autograph.experimental.do_not_convert
    def staged(features, labels):
        return model.encoder.stage(features), labels

    return batches.map(staged, num_parallel_calls=tf.data.AUTOTUNE).prefetch(depth)

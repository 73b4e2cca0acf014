"""Requests whose candidates share users, of a batch's rows, beside the same candidates with a user each."""

import numpy as np
import tensorflow as tf


def per_user(columns):
    return {each.column for each in columns if each.per_user}


def shared(features, columns, counts, seed=0):
    """(Features with `counts` candidates of the first users, the same as one whole row per candidate)."""
    rng, users = np.random.default_rng(seed), per_user(columns)
    rows = len(next(iter(features.values())))
    picked = rng.integers(0, rows, sum(counts))  # candidates come again where there are more than rows
    user_of = np.repeat(np.arange(len(counts)), counts)
    once = {name: feature[: len(counts)] if name in users else tf.gather(feature, picked) for name, feature in features.items()}
    spread = {name: tf.gather(feature, user_of if name in users else picked) for name, feature in features.items()}
    return once | {"candidates": tf.constant(counts, tf.int64)}, spread

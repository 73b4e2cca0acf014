"""The checks of the lesson on the fused AUGRU against right answers and every kind of wrong one."""

import tensorflow as tf
from solved import solved
from wrong_answers import judge

from ctrlab.ops import gru

LESSON = "02_ops/05_fused_augru"
right_cell, right_gradient = solved(LESSON, 1), solved(LESSON, 2)


def ignores_attention(x, h, a, *weights):
    return gru.cell(x, h, *weights)


def mirrored(x, h, a, *weights):
    return gru.cell(x, h, *weights, 1 - a[:, None])


def scales_the_state_only(x, h, a, W, b, V, d):
    update = tf.split(tf.sigmoid(tf.matmul(tf.concat([x, h], 1), W) + b), 2, axis=1)[1]
    return gru.cell(x, h, W, b, V, d) - a[:, None] * update * h


def half_cell(*inputs):
    return tf.cast(tf.cast(right_cell(*inputs), tf.bfloat16), tf.float32)


def three_products(x, h, a, W, b, V, d):
    H = h.shape[1]
    reset = tf.sigmoid(tf.matmul(tf.concat([x, h], 1), W[:, :H]) + b[:H])
    update = (1 - a[:, None]) * tf.sigmoid(tf.matmul(tf.concat([x, h], 1), W[:, H:]) + b[H:])
    candidate = tf.tanh(tf.matmul(tf.concat([x, reset * h], 1), V) + d)
    return update * h + (1 - update) * candidate


def no_op(x, h, *_):
    return h


def forgets_starts(d_h, outputs, gates, splits):
    H = outputs.shape[1]
    before = tf.pad(outputs, [[1, 0], [0, 0]])[:-1]
    return -tf.reduce_sum(d_h * (before - gates[:, 2 * H :]) * gates[:, H : 2 * H], 1)


def not_shifted(d_h, outputs, gates, splits):
    H = outputs.shape[1]
    return -tf.reduce_sum(d_h * (outputs - gates[:, 2 * H :]) * gates[:, H : 2 * H], 1)


def wrong_sign(*inputs):
    return -right_gradient(*inputs)


def reset_for_update(d_h, outputs, gates, splits):
    H = outputs.shape[1]
    return right_gradient(d_h, outputs, tf.concat([gates[:, H : 2 * H], gates[:, :H], gates[:, 2 * H :]], 1), splits)


def not_summed(d_h, *rest):
    return d_h


def low_precision(*inputs):
    return tf.cast(right_gradient(*inputs), tf.float16)


def padded(d_h, outputs, gates, splits):
    H = outputs.shape[1]
    rows = tf.RaggedTensor.from_row_splits(outputs, splits)
    shifted = tf.pad(rows.to_tensor(), [[0, 0], [1, 0], [0, 0]])[:, :-1]
    before = tf.RaggedTensor.from_tensor(shifted, rows.row_lengths()).flat_values
    return -tf.reduce_sum(d_h * (before - gates[:, 2 * H :]) * gates[:, H : 2 * H], 1)


WRONG_CELLS = [ignores_attention, mirrored, scales_the_state_only, half_cell, no_op]
WRONG_GRADIENTS = [forgets_starts, not_shifted, wrong_sign, reset_for_update, not_summed, low_precision]
test_right_answers_pass, test_wrong_answers_are_refused = judge(
    LESSON,
    {
        1: (right_cell, dict.fromkeys(WRONG_CELLS) | {three_products: "Budget"}),
        2: (right_gradient, dict.fromkeys(WRONG_GRADIENTS) | {padded: "Budget"}),
    },
)

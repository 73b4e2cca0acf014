"""The checks of the attention lesson against right answers and every kind of wrong one."""

import tensorflow as tf
from solved import solved
from wrong_answers import judge

from ctrlab.ops import attention
from ctrlab.ops.events import Events

LESSON = "02_ops/03_ragged_attention"
right = solved(LESSON, 1)


def changed_difference(query, keys, splits, layers, difference):
    (kernel, bias), *above = layers
    wq, wk, wd, wp = tf.split(kernel, 4)
    wd = difference * wd
    row_of = tf.repeat(tf.range(tf.shape(query)[0]), splits[1:] - splits[:-1])
    x = tf.gather(tf.matmul(query, wq + wd) + bias, row_of)
    x += tf.matmul(keys, wk - wd) + tf.matmul(tf.gather(query, row_of) * keys, wp)
    for kernel, bias in above:
        x = tf.matmul(tf.sigmoid(x), kernel) + bias
    return tf.squeeze(x, 1)


def joined(query, keys, splits, layers):
    q = tf.repeat(query, splits[1:] - splits[:-1], axis=0)
    x = tf.concat([q, keys, q - keys, q * keys], axis=1)
    for kernel, bias in layers[:-1]:
        x = tf.sigmoid(tf.matmul(x, kernel) + bias)
    return tf.squeeze(tf.matmul(x, layers[-1][0]) + layers[-1][1], 1)


def padded(query, keys, splits, layers):
    history = tf.RaggedTensor.from_row_splits(keys, splits).to_tensor()
    q = tf.broadcast_to(query[:, None, :], tf.shape(history))
    most = tf.shape(history)[1]
    (kernel, bias), *above = layers
    x = sum(tf.matmul(part, w) for part, w in zip((q, history, q - history, q * history), tf.split(kernel, 4))) + bias
    for kernel, bias in above:
        x = tf.matmul(tf.sigmoid(x), kernel) + bias
    return tf.boolean_mask(x[..., 0], tf.sequence_mask(splits[1:] - splits[:-1], most))


def no_op(query, keys, splits, layers):
    return keys


def zeros(query, keys, splits, layers):
    return tf.zeros(tf.shape(keys)[:1])


def off_by_one(query, keys, splits, layers):
    return tf.roll(right(query, keys, splits, layers), 1, 0)


def low_precision(query, keys, splits, layers):
    return tf.cast(tf.cast(right(query, keys, splits, layers), tf.bfloat16), tf.float32)


def half(query, keys, splits, layers):
    return tf.cast(right(query, keys, splits, layers), tf.float16)


def forgets_the_difference(query, keys, splits, layers):
    return changed_difference(query, keys, splits, layers, difference=0.0)


def difference_turned_round(query, keys, splits, layers):
    return changed_difference(query, keys, splits, layers, difference=-1.0)


def forgets_the_bias(query, keys, splits, layers):
    return right(query, keys, splits, [(layers[0][0], 0 * layers[0][1]), *layers[1:]])


def sigmoid_on_top(query, keys, splits, layers):
    return tf.sigmoid(right(query, keys, splits, layers))


WRONG = [no_op, zeros, off_by_one, low_precision, half, forgets_the_difference, difference_turned_round, forgets_the_bias]
TOO_MUCH = dict.fromkeys((joined, padded), "Budget")
test_right_answers_pass, test_wrong_answers_are_refused = judge(
    LESSON, {1: (right, dict.fromkeys([*WRONG, sigmoid_on_top]) | TOO_MUCH)}
)


def changed(found, change):
    events, rows = found
    return Events(events.splits, flat=change(events.flat)), change(rows)


def wrong_pools():
    def nothing(*inputs):
        return changed(attention.fused(*inputs), tf.zeros_like)

    def no_sums(*inputs):
        return attention.fused(*inputs)[0], tf.zeros_like(inputs[0])

    def not_normalized(*inputs):
        return changed(attention.fused(*inputs), lambda part: 2 * part)

    def over_the_batch(query, events, layers):
        weights = tf.nn.softmax(joined(query, events.flat, events.splits, layers))
        return Events(events.splits, flat=weights), attention.fused(query, events, layers)[1]

    def mean(query, events, layers):
        weights = tf.repeat(1 / tf.cast(events.lengths, tf.float32), events.lengths)
        return Events(events.splits, flat=weights), attention.fused(query, events, layers)[1]

    def half_precision(*inputs):
        return changed(attention.fused(*inputs), lambda part: tf.cast(tf.cast(part, tf.bfloat16), tf.float32))

    def weights_alone(*inputs):
        return attention.fused(*inputs)[0]

    def overflows(query, events, layers):
        e = tf.exp(joined(query, events.flat, events.splits, layers))
        row_of = events.ragged.value_rowids()
        weights = e / tf.gather(tf.math.unsorted_segment_sum(e, row_of, len(query)), row_of)
        return Events(events.splits, flat=weights), attention.fused(query, events, layers)[1]

    wrong = [nothing, no_sums, not_normalized, over_the_batch, mean, half_precision, weights_alone]
    return dict.fromkeys(wrong) | {overflows: "large scores"}


_, test_wrong_kernels_are_refused = judge(LESSON, {2: ((), wrong_pools())}, kernels=True)

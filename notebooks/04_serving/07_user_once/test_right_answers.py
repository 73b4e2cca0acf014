"""Right answers that are built in other ways than the lesson's solutions."""

import tensorflow as tf
from right_answers import passing


def users_by_einsum(users, candidates, row_of, kernel):
    split = users.shape[1]
    of_users = tf.einsum("ud,dh->uh", users, kernel[:split])
    return tf.gather(of_users, row_of) + tf.einsum("nd,dh->nh", candidates, kernel[split:])


def users_by_lookup(users, candidates, row_of, kernel):
    of_users = tf.matmul(users, kernel[: users.shape[1]])
    return tf.matmul(candidates, kernel[users.shape[1] :]) + tf.nn.embedding_lookup(of_users, row_of)


def users_by_add(users, candidates, row_of, kernel):
    top, bottom = tf.split(kernel, [users.shape[-1], -1], axis=0)
    return tf.math.add(tf.gather(tf.tensordot(users, top, axes=1), row_of, axis=0), tf.tensordot(candidates, bottom, axes=1))


def _attend(x, keys, above):
    for kernel, bias in above:
        x = tf.einsum("ntu,uv->ntv", tf.sigmoid(x), kernel) + bias
    weights = tf.nn.softmax(tf.squeeze(x, -1), axis=1)
    return weights, tf.einsum("nt,tc->nc", weights, keys)


def attend_by_einsum(query, keys, layers):
    (kernel, bias), width = layers[0], query.shape[1]
    q, k, d, p = (kernel[n * width : (n + 1) * width] for n in range(4))
    of_pairs = tf.einsum("ntc,cu->ntu", query[:, None] * keys, p)
    x = (query @ (q + d))[:, None] + (keys @ (k - d))[None] + of_pairs + bias
    return _attend(x, keys, layers[1:])


def attend_by_broadcast(query, keys, layers):
    (kernel, bias), *above = layers
    q, k, d, p = tf.split(kernel, 4, axis=0)
    x = tf.expand_dims(tf.matmul(query, q + d), 1) + tf.expand_dims(tf.matmul(keys, k - d), 0)
    x += tf.matmul(tf.expand_dims(query, 1) * tf.expand_dims(keys, 0), p) + bias
    return _attend(x, keys, above)


def attend_by_flat_rows(query, keys, layers):
    (kernel, bias), *above = layers
    q, k, d, p = tf.split(kernel, 4)
    candidates, events, width = tf.shape(query)[0], tf.shape(keys)[0], query.shape[1]
    pairs = tf.reshape(query[:, None] * keys[None], [-1, width]) @ p
    x = tf.reshape(pairs, tf.stack([candidates, events, p.shape[1]])) + (query @ (q + d))[:, None] + keys @ (k - d) + bias
    return _attend(x, keys, above)


ANSWERS = {
    1: [users_by_einsum, users_by_lookup, users_by_add],
    2: [attend_by_einsum, attend_by_broadcast, attend_by_flat_rows],
}
test_another_right_answer_passes = passing("04_serving/07_user_once", ANSWERS)

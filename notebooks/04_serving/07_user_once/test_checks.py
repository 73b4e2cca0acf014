"""The checks of the lesson on users that are computed once, against right answers and every kind of wrong one."""

import pytest
import tensorflow as tf
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed

LESSON = "04_serving/07_user_once"
first_layer, attend = solved(LESSON, 1), solved(LESSON, 2)


def whole_rows(users, candidates, row_of, kernel):
    return tf.concat([tf.gather(users, row_of), candidates], 1) @ kernel


def gathers_first(users, candidates, row_of, kernel):
    of_users, of_candidates = tf.split(kernel, [users.shape[1], candidates.shape[1]])
    return tf.gather(users, row_of) @ of_users + candidates @ of_candidates


def one_hot_of_users(users, candidates, row_of, kernel):
    of_users, of_candidates = tf.split(kernel, [users.shape[1], candidates.shape[1]])
    whose = tf.one_hot(row_of, tf.shape(users)[0])  # [N, U]
    return whose @ (users @ of_users) + candidates @ of_candidates


def a_loop():
    _, one = tf.while_loop(lambda i, _: i < 1, lambda i, _: (i + 1, tf.constant(1.0)), (tf.constant(0), tf.constant(0.0)))
    return one


def hides_a_loop(users, candidates, row_of, kernel):
    one = a_loop()
    return first_layer(users, candidates, row_of, kernel) * one


def by_hand(users, candidates, row_of, kernel):
    return tf.constant(whole_rows(users, candidates, row_of, kernel).numpy())


def zeros(users, candidates, row_of, kernel):
    return tf.zeros([len(candidates), kernel.shape[1]])


def candidates_alone(users, candidates, row_of, kernel):
    return candidates @ kernel[users.shape[1] :]


def users_alone(users, candidates, row_of, kernel):
    return tf.gather(users @ kernel[: users.shape[1]], row_of)


def the_first_user_for_all(users, candidates, row_of, kernel):
    return first_layer(users, candidates, 0 * row_of, kernel)


def the_next_user(users, candidates, row_of, kernel):
    return first_layer(users, candidates, (row_of + 1) % max(1, len(users)), kernel)


def as_many_candidates_each(users, candidates, row_of, kernel):
    each = max(1, len(candidates) // max(1, len(users)))
    return first_layer(users, candidates, tf.minimum(tf.range(len(candidates)) // each, max(0, len(users) - 1)), kernel)


def in_order(users, candidates, row_of, kernel):
    return first_layer(users, candidates, tf.sort(row_of), kernel)


def candidates_first(users, candidates, row_of, kernel):
    of_candidates, of_users = tf.split(kernel, [candidates.shape[1], users.shape[1]])
    return tf.gather(users @ of_users, row_of) + candidates @ of_candidates


def one_row_off(users, candidates, row_of, kernel):
    return tf.roll(first_layer(users, candidates, row_of, kernel), 1, 0)


def user_twice(users, candidates, row_of, kernel):
    return first_layer(2 * users, candidates, row_of, kernel)


def low_precision(users, candidates, row_of, kernel):
    half = [tf.cast(x, tf.float16) for x in (users, candidates)]
    return tf.cast(first_layer(*half, row_of, tf.cast(kernel, tf.float16)), tf.float32)


def bfloat16_result(users, candidates, row_of, kernel):
    return tf.cast(tf.cast(first_layer(users, candidates, row_of, kernel), tf.bfloat16), tf.float32)


def in_float64(users, candidates, row_of, kernel):
    return tf.cast(first_layer(users, candidates, row_of, kernel), tf.float64)


def not_a_number(users, candidates, row_of, kernel):
    return first_layer(users, candidates, row_of, kernel) * float("nan")


def users_without_candidates_are_left_out(users, candidates, row_of, kernel):
    there, row = tf.unique(row_of)
    return first_layer(users[: len(there)], candidates, row, kernel)


def a_list(users, candidates, row_of, kernel):
    return [first_layer(users, candidates, row_of, kernel), None]


def forgets_to_return(users, candidates, row_of, kernel):
    first_layer(users, candidates, row_of, kernel)


def as_many_rows_as_traced(users, candidates, row_of, kernel):
    return tf.reshape(first_layer(users, candidates, row_of, kernel), [candidates.shape[0], kernel.shape[1]])


LAYERS = dict.fromkeys((
    zeros, candidates_alone, users_alone, the_first_user_for_all, the_next_user, as_many_candidates_each,
    candidates_first, one_row_off, user_twice, low_precision, bfloat16_result, a_list, users_without_candidates_are_left_out,
)) | {
    in_order: "whose users take turns",
    in_float64: "float64",
    not_a_number: "nan",
    whole_rows: "Budget",
    gathers_first: "Budget.*\n.*no tensor above",
    one_hot_of_users: "Budget.*\n.*multiply-adds",
    hides_a_loop: "Budget.*\n.*no loop",
    by_hand: "can be traced",
    forgets_to_return: "received None\n.*a return",
    as_many_rows_as_traced: "how many rows come(.*\n)*.*tf.shape",
}  # fmt: skip


def finish(x, above, keys, weigh=tf.nn.softmax):
    for kernel, bias in above:
        x = tf.tensordot(tf.sigmoid(x), kernel, 1) + bias
    weights = weigh(x[..., 0])
    return weights, weights @ keys


def joined(query, keys, layers):
    shape = tf.shape(query[:, None] + keys)
    q, k = tf.broadcast_to(query[:, None], shape), tf.broadcast_to(keys, shape)
    (kernel, bias), *above = layers
    return finish(tf.tensordot(tf.concat([q, k, q - k, q * k], 2), kernel, 1) + bias, above, keys)


def keys_for_each_pair(query, keys, layers):
    (kernel, bias), *above = layers
    wq, wk, wd, wp = tf.split(kernel, 4)
    pairs = query[:, None] * keys
    of_pairs = tf.tensordot(tf.broadcast_to(keys, tf.shape(pairs)), wk - wd, 1) + tf.tensordot(pairs, wp, 1)
    return finish((query @ (wq + wd) + bias)[:, None] + of_pairs, above, keys)


def queries_for_each_pair(query, keys, layers):
    (kernel, bias), *above = layers
    wq, wk, wd, wp = tf.split(kernel, 4)
    pairs = query[:, None] * keys
    q = tf.broadcast_to(query[:, None], tf.shape(pairs))
    return finish(tf.tensordot(q, wq + wd, 1) + keys @ (wk - wd) + tf.tensordot(pairs, wp, 1) + bias, above, keys)


def k_and_product_joined(query, keys, layers):
    (kernel, bias), *above = layers
    wq, wk, wd, wp = tf.split(kernel, 4)
    pairs = query[:, None] * keys
    x = tf.concat([tf.broadcast_to(keys, tf.shape(pairs)), pairs], 2)
    return finish(tf.tensordot(x, tf.concat([wk - wd, wp], 0), 1) + (query @ (wq + wd) + bias)[:, None], above, keys)


def loops_over_nothing(query, keys, layers):
    one = a_loop()
    return tuple(each * one for each in attend(query, keys, layers))


def nothing(query, keys, layers):
    return tf.zeros([len(query), len(keys)]), tf.zeros_like(query)


def unchanged(query, keys, layers):
    return query, keys


def mean(query, keys, layers):
    weights = tf.ones([len(query), len(keys)]) / max(1, len(keys))
    return weights, weights @ keys


def with_terms(query, keys, layers, difference=1.0, product=1.0):
    (kernel, bias), *above = layers
    wq, wk, wd, wp = tf.split(kernel, 4)
    return attend(query, keys, [(tf.concat([wq, wk, difference * wd, product * wp], 0), bias), *above])


def no_difference(query, keys, layers):
    return with_terms(query, keys, layers, difference=0.0)


def difference_turned_round(query, keys, layers):
    return with_terms(query, keys, layers, difference=-1.0)


def no_product(query, keys, layers):
    return with_terms(query, keys, layers, product=0.0)


def forgets_the_bias(query, keys, layers):
    return attend(query, keys, [(layers[0][0], 0 * layers[0][1]), *layers[1:]])


def bias_with_each_term(query, keys, layers):
    return attend(query, keys, [(layers[0][0], 3 * layers[0][1]), *layers[1:]])


def softmax_over_candidates(query, keys, layers):
    weights, _ = scores_as_weights(query, keys, layers)
    weights = tf.transpose(tf.nn.softmax(tf.transpose(weights)))
    return weights, weights @ keys


def scores_as_weights(query, keys, layers):
    (kernel, bias), *above = layers
    wq, wk, wd, wp = tf.split(kernel, 4)
    x = (query @ (wq + wd) + bias)[:, None] + keys @ (wk - wd) + tf.tensordot(query[:, None] * keys, wp, 1)
    return finish(x, above, keys, weigh=tf.identity)


def exp_overflows(query, keys, layers):
    e = tf.exp(scores_as_weights(query, keys, layers)[0])
    weights = e / tf.reduce_sum(e, 1, keepdims=True)
    return weights, weights @ keys


def sigmoid_on_top(query, keys, layers):
    weights = tf.nn.softmax(tf.sigmoid(scores_as_weights(query, keys, layers)[0]))
    return weights, weights @ keys


def one_event_off(query, keys, layers):
    weights, attended = attend(query, keys, layers)
    return tf.roll(weights, 1, 1), attended


def one_candidate_off(query, keys, layers):
    return tuple(tf.roll(each, 1, 0) for each in attend(query, keys, layers))


def turned(query, keys, layers):
    weights, attended = attend(query, keys, layers)
    return tf.transpose(weights), attended


def flat(query, keys, layers):
    weights, attended = attend(query, keys, layers)
    return tf.reshape(weights, [-1]), attended


def weights_alone(query, keys, layers):
    return attend(query, keys, layers)[0]


def attends_to_queries(query, keys, layers):
    weights, _ = attend(query, keys, layers)
    return weights, query


def bfloat16_inside(query, keys, layers):
    half = [(tf.cast(tf.cast(kernel, tf.bfloat16), tf.float32), bias) for kernel, bias in layers]
    return attend(query, keys, half)


def float16_first_layer(query, keys, layers):
    (kernel, bias), *above = layers
    wq, wk, wd, wp = (tf.cast(w, tf.float16) for w in tf.split(kernel, 4))
    q, k = tf.cast(query, tf.float16), tf.cast(keys, tf.float16)
    x = (q @ (wq + wd))[:, None] + k @ (wk - wd) + tf.tensordot(q[:, None] * k, wp, 1)
    return finish(tf.cast(x, tf.float32) + bias, above, keys)


def needs_an_event(query, keys, layers):
    keys.numpy()[0]
    return attend(query, keys, layers)


def as_many_pairs_as_traced(query, keys, layers):
    weights, attended = attend(query, keys, layers)
    return tf.reshape(weights, [query.shape[0], keys.shape[0]]), attended


def zeros_if_no_events_are_known(query, keys, layers):
    if not keys.shape[0]:  # also where their number is not known
        return tf.zeros([tf.shape(query)[0], tf.shape(keys)[0]]), tf.zeros_like(query)
    return attend(query, keys, layers)


def two_products_per_candidate(query, keys, layers):
    (kernel, bias), *above = layers
    wq, wk, wd, wp = tf.split(kernel, 4)
    of_queries = query @ wq + query @ wd + bias
    return finish(of_queries[:, None] + keys @ (wk - wd) + tf.tensordot(query[:, None] * keys, wp, 1), above, keys)


SHARED = dict.fromkeys((
    nothing, unchanged, mean, no_difference, difference_turned_round, no_product, forgets_the_bias, bias_with_each_term,
    softmax_over_candidates, scores_as_weights, sigmoid_on_top, one_event_off, one_candidate_off, turned, flat,
    attends_to_queries, bfloat16_inside, float16_first_layer,
)) | {
    exp_overflows: "scores of some hundreds(.*\n)*.*overflows",
    as_many_pairs_as_traced: "how many rows come(.*\n)*.*tf.shape",
    zeros_if_no_events_are_known: "how many rows come",
    two_products_per_candidate: "Budget.*one matrix.*\n.*multiply-adds",
    weights_alone: "returns weights, attended",
    needs_an_event: "here no events",
    joined: "Budget.*\n.*no tensor above",
    keys_for_each_pair: "Budget.*\n.*multiply-adds",
    queries_for_each_pair: "Budget.*\n.*multiply-adds",
    k_and_product_joined: "Budget.*\n.*multiply-adds",
    loops_over_nothing: "Budget.*\n.*no loop",
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {1: (first_layer, LAYERS), 2: (attend, SHARED)})


def by_einsum(users, candidates, row_of, kernel):
    of_users, of_candidates = kernel[: users.shape[1]], kernel[users.shape[1] :]
    products = tf.einsum("uc,ch->uh", users, of_users)
    return tf.gather(products, row_of) + tf.einsum("nc,ch->nh", candidates, of_candidates)


def a_matrix_per_candidate(query, keys, layers):
    """q * k Wp = k (diag(q) Wp), as the ragged kernel of one query per history has it."""
    (kernel, bias), *above = layers
    wq, wk, wd, wp = tf.split(kernel, 4)
    of_each = (wk - wd) + query[:, :, None] * wp  # [N, C, units]
    return finish(tf.einsum("tc,ncu->ntu", keys, of_each) + (query @ (wq + wd) + bias)[:, None], above, keys)


def in_rows_of_pairs(query, keys, layers):
    """The pairs as rows, with products of two dimensions, and a softmax by hand."""
    (kernel, bias), *above = layers
    wq, wk, wd, wp = tf.split(kernel, 4)
    pairs = tf.reshape(query[:, None] * keys, [-1, tf.shape(keys)[1]])
    x = tf.reshape((query @ (wq + wd))[:, None] + (keys @ (wk - wd))[None], [-1, tf.shape(bias)[0]]) + pairs @ wp + bias
    for kernel, bias in above:
        x = tf.sigmoid(x) @ kernel + bias
    scores = tf.reshape(x, [tf.shape(query)[0], tf.shape(keys)[0]])
    e = tf.exp(scores - tf.reduce_max(scores, 1, keepdims=True))
    weights = e / tf.reduce_sum(e, 1, keepdims=True)
    return weights, tf.reduce_sum(weights[..., None] * keys, 1)


@pytest.mark.parametrize("exercise, answer", [(1, by_einsum), (2, a_matrix_per_candidate), (2, in_rows_of_pairs)])
def test_other_right_answers_pass(exercise, answer):
    for seed in range(5):
        check.run(LESSON, exercise, answer, seed)


@pytest.mark.parametrize("exercise, answer", [(1, whole_rows), (2, joined)])
def test_what_repeats_the_user_is_right_and_over_the_budget(exercise, answer):
    for seed in range(5):
        with pytest.raises(CheckFailed, match="Budget"):
            check.run(LESSON, exercise, answer, seed)

"""Right answers in TensorFlow, each built another way than its lesson's solution."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

# 01_baseline/02_click_data, exercise 2.


def splits_by_search(text, offsets):
    places = tf.where(text == ord(";"))[:, 0]
    before = tf.searchsorted(places, offsets, out_type=tf.int64)
    lengths = tf.where(offsets[1:] > offsets[:-1], before[1:] - before[:-1] + 1, 0)
    return tf.concat([tf.zeros(1, tf.int64), tf.cumsum(lengths)], 0)


def splits_by_running_count(text, offsets):
    count = tf.pad(tf.cumsum(tf.cast(text == ord(";"), tf.int64)), [[1, 0]])
    begins, ends = offsets[:-1], offsets[1:]
    lengths = tf.gather(count, ends) - tf.gather(count, begins) + tf.cast(ends > begins, tf.int64)
    return tf.pad(tf.cumsum(lengths), [[1, 0]])


def splits_by_segments(text, offsets):
    inside = tf.boolean_mask(tf.range(offsets[0], offsets[-1]), text[offsets[0] : offsets[-1]] == ord(";"))
    row = tf.searchsorted(offsets, inside, side="right", out_type=tf.int64) - 1
    count = tf.size(offsets, tf.int64) - 1
    separators = tf.math.unsorted_segment_sum(tf.ones_like(row), row, count)
    return tf.concat([[0], tf.cumsum(tf.where(offsets[1:] == offsets[:-1], tf.zeros_like(separators), separators + 1))], 0)


# 01_baseline/03_six_models, exercise 1.


def two_running_sums(v):
    total = before = tf.zeros_like(v[:, 0])
    for i in range(v.shape[1]):
        total = total + before * v[:, i]
        before = before + v[:, i]
    return total


def running_sum(v):
    return tf.reduce_sum(v * tf.cumsum(v, axis=1, exclusive=True), axis=1)


def by_unstack(v):
    fields = tf.unstack(v, axis=1)
    total = tf.add_n(fields)
    return sum((field * (total - field) for field in fields), tf.zeros_like(total)) / 2


def by_einsum(v):
    return (tf.einsum("bfd->bd", v) ** 2 - tf.einsum("bfd,bfd->bd", v, v)) / 2


# 02_ops/01_indicator_column, exercise 1.


def flat_scatter(ids, size):
    flat, row = ids.flat_values, ids.value_rowids()
    keep = flat >= 0
    place = tf.boolean_mask(row * size + flat, keep)
    counted = tf.scatter_nd(place[:, None], tf.ones_like(place, tf.float32), [ids.nrows() * size])
    return tf.reshape(counted, [-1, size])


def flat_segments(ids, size):
    flat = ids.flat_values
    place = tf.where(flat >= 0, ids.value_rowids() * size + flat, -1)  # a segment below 0 is dropped
    counted = tf.math.unsorted_segment_sum(tf.ones_like(flat, tf.float32), place, ids.nrows() * size)
    return tf.reshape(counted, tf.stack([ids.nrows(), size]))


def into_zeros(ids, size):
    known = tf.where(ids.flat_values >= 0)[:, 0]
    index = tf.gather(tf.stack([ids.value_rowids(), ids.flat_values], 1), known)
    zeros = tf.zeros(tf.stack([ids.nrows(), tf.cast(size, tf.int64)]))
    return tf.tensor_scatter_nd_add(zeros, index, tf.ones(tf.shape(known), tf.float32))


def unknown_adds_nothing(ids, size):
    flat = ids.flat_values
    index = tf.stack([ids.value_rowids(), tf.maximum(flat, 0)], 1)
    return tf.scatter_nd(index, tf.cast(flat >= 0, tf.float32), tf.stack([ids.nrows(), size]))


def by_bincount(ids, size):
    known = tf.ragged.boolean_mask(ids, ids >= 0)
    place = known.value_rowids() * size + known.flat_values
    total = tf.cast(ids.nrows() * size, tf.int32)
    flat = tf.math.bincount(tf.cast(place, tf.int32), minlength=total, maxlength=total, dtype=tf.float32)
    return tf.reshape(flat, [-1, size])


# 02_ops/02_one_lookup, exercise 1.


def merge_sorted(ids, rows):
    order = tf.argsort(ids, stable=True)
    ids = tf.gather(ids, order)
    new = tf.concat([tf.ones_like(ids[:1], tf.bool), ids[1:] != ids[:-1]], 0)
    place = tf.cumsum(tf.cast(new, tf.int32)) - 1
    return tf.boolean_mask(ids, new), tf.math.segment_sum(tf.gather(rows, order), place)


def merge_then_sort(ids, rows):
    unique, place = tf.unique(ids)
    order = tf.argsort(unique)
    sums = tf.math.unsorted_segment_sum(rows, place, tf.size(unique))
    return tf.gather(unique, order), tf.gather(sums, order)


def merge_by_search(ids, rows):
    unique = tf.unique(tf.sort(ids)).y
    place = tf.searchsorted(unique, ids)
    return unique, tf.scatter_nd(place[:, None], rows, tf.stack([tf.size(unique), rows.shape[1]]))


def merge_by_rank(ids, rows):
    unique, place = tf.unique(ids)
    order = tf.argsort(unique)
    rank = tf.math.invert_permutation(order)
    return tf.gather(unique, order), tf.math.unsorted_segment_sum(rows, tf.gather(rank, place), tf.size(unique))


# 02_ops/03_ragged_attention, exercise 1.


def _towers(x, layers):
    for kernel, bias in layers[1:]:
        x = tf.sigmoid(x) @ kernel + bias
    return x[:, 0]


def scores_by_repeat(query, keys, splits, layers):
    (kernel, bias), width = layers[0], query.shape[1]
    q, k, d, p = tf.split(kernel, 4)
    rows = tf.repeat(tf.range(tf.shape(query)[0]), splits[1:] - splits[:-1])
    x = tf.gather(query @ (q + d), rows) + keys @ (k - d) + (tf.gather(query, rows) * keys) @ p + bias
    assert width == keys.shape[1]
    return _towers(x, layers)


def scores_by_four_products(query, keys, splits, layers):
    kernel, bias = layers[0]
    width = keys.shape[1]
    rows = tf.RaggedTensor.from_row_splits(keys, splits).value_rowids()
    asked = tf.gather(query, rows)
    x = bias
    for place, part in enumerate((asked, keys, asked - keys, asked * keys)):
        x = tf.matmul(part, kernel[place * width : (place + 1) * width]) + x
    return _towers(x, layers)


def scores_by_search(query, keys, splits, layers):
    kernel, bias = layers[0]
    width = keys.shape[1]
    places = tf.range(tf.shape(keys, tf.int64)[0])
    rows = tf.searchsorted(splits, places, side="right") - 1
    asked = tf.gather(query, rows)
    of_query = tf.gather(tf.tensordot(query, kernel[:width] + kernel[2 * width : 3 * width], 1), rows)
    of_keys = tf.tensordot(keys, kernel[width : 2 * width] - kernel[2 * width : 3 * width], 1)
    x = tf.nn.bias_add(of_query + of_keys + tf.einsum("nc,cu->nu", asked * keys, kernel[3 * width :]), bias)
    for kernel, bias in layers[1:]:
        x = tf.nn.bias_add(tf.matmul(tf.nn.sigmoid(x), kernel), bias)
    return tf.squeeze(x, 1)


# 02_ops/04_fused_gru, exercise 1.


def blocks_by_sort_of_negatives(lengths, size):
    order = tf.argsort(-lengths, stable=True)
    return order, size * tf.reduce_sum(tf.gather(lengths, order)[::size])


def blocks_by_top_k(lengths, size):
    sorted_lengths, order = tf.math.top_k(lengths, tf.size(lengths))
    return order, tf.reduce_sum(tf.gather(sorted_lengths, tf.range(0, tf.size(lengths), size))) * size


def blocks_by_padding(lengths, size):
    order = tf.argsort(lengths, direction="DESCENDING")
    rest = -tf.size(lengths) % size
    of_blocks = tf.reshape(tf.pad(tf.gather(lengths, order), [[0, rest]]), [-1, size])
    return tf.cast(order, tf.int64), tf.reduce_sum(tf.reduce_max(of_blocks, 1)) * size


# 02_ops/05_fused_augru.


def cell_by_split(x, h, a, W, b, V, d):
    r, u = tf.split(tf.sigmoid(tf.matmul(tf.concat([x, h], 1), W) + b), 2, axis=1)
    u = (1.0 - a)[:, tf.newaxis] * u
    c = tf.tanh(tf.matmul(tf.concat([x, r * h], 1), V) + d)
    return u * h + (1.0 - u) * c


def cell_by_difference(x, h, a, W, b, V, d):
    units = h.shape[1]
    gates = tf.nn.sigmoid(tf.nn.bias_add(tf.concat([x, h], axis=-1) @ W, b))
    c = tf.nn.tanh(tf.nn.bias_add(tf.concat([x, gates[:, :units] * h], axis=-1) @ V, d))
    return c + gates[:, units:] * (1 - tf.expand_dims(a, 1)) * (h - c)


def cell_by_einsum(x, h, a, W, b, V, d):
    gates = tf.sigmoid(tf.einsum("bi,ij->bj", tf.concat([x, h], 1), W) + b)
    reset, update = gates[:, : h.shape[1]], gates[:, h.shape[1] :]
    candidate = tf.tanh(tf.einsum("bi,ij->bj", tf.concat([x, tf.multiply(reset, h)], 1), V) + d)
    update = tf.einsum("b,bh->bh", 1 - a, update)
    return h * update + candidate - candidate * update


def _state_before(outputs, splits, first):
    shifted = tf.concat([tf.zeros_like(outputs[:1]), outputs[:-1]], 0)
    return tf.where(first[:, None], tf.zeros_like(outputs), shifted)


def gradient_by_row_numbers(d_h, outputs, gates, splits):
    rows = tf.RaggedTensor.from_row_splits(outputs, splits).value_rowids()
    first = tf.concat([tf.ones_like(rows[:1], tf.bool), rows[1:] != rows[:-1]], 0)
    _, u, c = tf.split(gates, 3, axis=1)
    return -tf.reduce_sum(d_h * (_state_before(outputs, splits, first) - c) * u, 1)


def gradient_by_mask(d_h, outputs, gates, splits):
    units, count = outputs.shape[1], tf.shape(outputs, tf.int64)[0]
    starts = tf.boolean_mask(splits[:-1], splits[:-1] < count)
    hits = tf.math.unsorted_segment_sum(tf.ones_like(starts, tf.float32), starts, count)
    before = tf.pad(outputs, [[1, 0], [0, 0]])[:-1] * tf.cast(hits == 0, tf.float32)[:, None]
    return tf.reduce_sum(d_h * (gates[:, 2 * units :] - before) * gates[:, units : 2 * units], axis=-1)


def gradient_by_roll(d_h, outputs, gates, splits):
    units = outputs.shape[1]
    places = tf.range(tf.shape(outputs, tf.int64)[0])
    first = tf.gather(splits, tf.searchsorted(splits, places, side="right") - 1) == places
    u, c = gates[:, units : 2 * units], gates[:, 2 * units :]
    before = tf.roll(outputs, 1, axis=0) * (1 - tf.cast(first[:, None], tf.float32))
    return -tf.reduce_sum(d_h * u * (before - c), 1)


# 02_ops/06_sequence_parsing, exercise 1.


def hashed_by_stack(columns, separator, buckets):
    texts = tf.reshape(tf.stack(columns), [-1])
    parts = tf.strings.split(texts, sep=separator)
    parts = tf.ragged.boolean_mask(parts, parts != "")
    return tf.strings.to_hash_bucket_fast(parts, buckets)


def hashed_by_flat_values(columns, separator, buckets):
    parts = tf.strings.split(tf.concat(columns, 0), separator)
    kept = tf.where(tf.strings.length(parts.flat_values) > 0)[:, 0]
    ids = tf.strings.to_hash_bucket_fast(tf.gather(parts.flat_values, kept), buckets)
    return tf.RaggedTensor.from_value_rowids(ids, tf.gather(parts.value_rowids(), kept), parts.nrows())


def hashed_before_the_mask(columns, separator, buckets):
    parts = tf.strings.split(tf.concat(columns, axis=0), sep=separator)
    ids = tf.ragged.map_flat_values(tf.strings.to_hash_bucket_fast, parts, buckets)
    return tf.ragged.boolean_mask(ids, tf.ragged.map_flat_values(lambda flat: flat != "", parts))


# 02_ops/07_interactions, exercise 1.


def _pair_numbers(count):
    numbers = np.zeros((count, count), np.int32)
    numbers[np.tril_indices(count, -1)] = np.arange(count * (count - 1) // 2)
    return numbers + numbers.T


def pairs_by_set_diag(u, g):
    both = tf.gather(g, _pair_numbers(u.shape[1]), axis=1)
    return tf.linalg.set_diag(both, tf.zeros(tf.shape(u)[:2])) @ u


def pairs_by_mask(u, g):
    count = u.shape[1]
    both = tf.gather(g, _pair_numbers(count), axis=1) * (1 - tf.eye(count))
    return tf.einsum("bij,bjd->bid", both, u)


def pairs_by_flat_gather(u, g):
    count = u.shape[1]
    numbers = _pair_numbers(count) + 1
    np.fill_diagonal(numbers, 0)
    padded = tf.concat([tf.zeros_like(g[:, :1]), g], axis=1)
    both = tf.reshape(tf.gather(padded, numbers.reshape(-1), axis=1), [-1, count, count])
    return tf.linalg.matmul(both, u)


# 02_ops/08_subgraphs, exercise 1.


def norm_as_the_formula(a, mean, inverse, scale, d_out):
    h = (a - mean) * inverse
    product = d_out * h
    d_a = scale * inverse * (d_out - tf.reduce_mean(d_out, 0) - h * tf.reduce_mean(product, 0))
    return d_a, tf.reduce_sum(product, 0), tf.reduce_sum(d_out, 0)


def norm_by_einsum(a, mean, inverse, scale, d_out):
    h = (a - mean) * inverse
    rows = tf.cast(tf.shape(a)[0], tf.float32)
    d_scale, d_shift = tf.einsum("bn,bn->n", d_out, h), tf.einsum("bn->n", d_out)
    return (scale * inverse) * ((d_out - d_shift / rows) - h * (d_scale / rows)), d_scale, d_shift


def norm_by_sums(a, mean, inverse, scale, d_out):
    rows = float(a.shape[0])
    d_shift = tf.math.reduce_sum(d_out, axis=0)
    centred = tf.subtract(a, mean)
    d_scale = tf.reduce_sum(tf.multiply(d_out, centred), axis=0) * inverse
    inner = d_out - (d_shift / rows + centred * (inverse * d_scale / rows))
    return inner * (scale * inverse), d_scale, d_shift


# 02_ops/09_experts, exercise 1.


def experts_by_einsum(x, kernel, gates):
    experts, inputs, outputs = kernel.shape
    joined = tf.concat([tf.reshape(tf.transpose(kernel, [1, 0, 2]), [inputs, -1]), *gates], 1)
    y = tf.einsum("bi,ij->bj", x, joined)
    said, logits = tf.split(y, [experts * outputs, len(gates) * experts], axis=1)
    return tf.transpose(tf.reshape(said, [tf.shape(x)[0], experts, outputs]), [1, 0, 2]), logits


def experts_by_unstack(x, kernel, gates):
    every = [*tf.unstack(kernel), *gates]
    parts = tf.split(tf.matmul(x, tf.concat(every, 1)), [part.shape[1] for part in every], axis=1)
    count = kernel.shape[0]
    return tf.stack(parts[:count]), tf.concat(parts[count:], 1)


def experts_by_slices(x, kernel, gates):
    count, _, outputs = kernel.shape
    y = tf.tensordot(x, tf.concat([kernel[e] for e in range(count)] + list(gates), axis=-1), 1)
    return tf.stack([y[:, e * outputs : (e + 1) * outputs] for e in range(count)], axis=0), y[:, count * outputs :]


# 02_ops/10_mixed_precision.


def half_with_bias_in_float32(x, kernel, bias):
    product = tf.matmul(tf.cast(x, tf.bfloat16), tf.cast(kernel, tf.bfloat16))
    return tf.nn.relu(tf.cast(product, tf.float32) + bias)


def half_by_einsum(x, kernel, bias):
    x, kernel, bias = (tf.cast(t, tf.bfloat16) for t in (x, kernel, bias))
    return tf.cast(tf.maximum(tf.einsum("bi,ij->bj", x, kernel) + bias, 0), tf.float32)


@tf.function
def half_as_a_function(x, kernel, bias):
    half = tf.tensordot(tf.cast(x, "bfloat16"), tf.cast(kernel, "bfloat16"), 1) + tf.cast(bias, "bfloat16")
    return tf.cast(tf.nn.relu(half), "float32")


def clipped_by_hand(weight, gradient, rate, clip):
    gradient = tf.cast(gradient, tf.float32)
    norm = tf.norm(gradient)
    return weight - rate * tf.where(norm > clip, gradient * (clip / norm), gradient)


def clipped_by_the_smaller(weight, gradient, rate, clip):
    gradient = tf.cast(gradient, weight.dtype)
    scale = tf.minimum(1.0, tf.math.divide_no_nan(clip, tf.sqrt(tf.reduce_sum(tf.square(gradient)))))
    return weight - rate * tf.where(tf.reduce_any(gradient != 0), scale, 1.0) * gradient


def clipped_by_global_norm(weight, gradient, rate, clip):
    (gradient,), _ = tf.clip_by_global_norm([tf.cast(gradient, tf.float32)], clip)
    return weight - rate * gradient


# 02_ops/16_several_workers, exercise 2.


def joined_by_einsum(counts, means, variances):
    share = counts / tf.reduce_sum(counts)
    mean = tf.einsum("w,wn->n", share, means)
    return mean, tf.einsum("w,wn->n", share, variances + (means - mean) ** 2)


def joined_by_product(counts, means, variances):
    share = (counts / tf.reduce_sum(counts))[None]
    mean = tf.squeeze(share @ means, 0)
    within, between = share @ variances, share @ tf.math.squared_difference(means, mean)
    return mean, (within + between)[0]


def joined_by_sums(counts, means, variances):
    rows, total = counts[:, tf.newaxis], tf.reduce_sum(counts)
    mean = tf.reduce_sum(rows * means, axis=0) / total
    return mean, tf.reduce_sum(rows * variances + rows * tf.square(means - mean), axis=0) / total


# 03_embedding/05_multi_hash.


def quotient_by_divmod(ids, tables):
    m, q = tables[0].shape[0], tables[1].shape[0]
    quotient = tf.math.floordiv(ids, m)
    return tf.nn.embedding_lookup(tables[0], ids - quotient * m) + tf.nn.embedding_lookup(
        tables[1], tf.math.floormod(quotient, q)
    )


def quotient_by_add_n(ids, tables):
    m = tf.shape(tables[0], tf.int64)[0]
    q = tf.shape(tables[1], tf.int64)[0]
    return tf.add_n([tf.gather(tables[0], tf.math.mod(ids, m)), tf.gather(tables[1], tf.math.mod(ids // m, q))])


def quotient_by_gather_nd(ids, tables):
    first, second = tables
    rows = [ids % len(first), (ids // len(first)) % len(second)]
    return sum(tf.gather_nd(table, row[:, None]) for table, row in zip(tables, rows))


def code_by_shifts(ids, tables):
    bits = int(np.log2(tables[0].shape[0]))
    masks = (
        tf.bitwise.bitwise_and(tf.bitwise.right_shift(ids, tf.constant(bits * k, tf.int64)), 2**bits - 1)
        for k in range(len(tables))
    )
    return tf.concat([tf.gather(table, row) for table, row in zip(tables, masks)], axis=-1)


def code_by_powers(ids, tables):
    size = tables[0].shape[0]
    return tf.concat([tf.gather(table, (ids // size**k) % size) for k, table in enumerate(tables)], 1)


def code_by_one_division(ids, tables):
    size = tables[0].shape[0]
    powers = tf.constant([size**k for k in range(len(tables))], tf.int64)
    rows = tf.unstack(ids[:, None] // powers % size, axis=1)
    return tf.concat([tf.nn.embedding_lookup(table, row) for table, row in zip(tables, rows)], axis=1)


# 04_serving/07_user_once.


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
    ("01_baseline/02_click_data", 2): [splits_by_search, splits_by_running_count, splits_by_segments],
    ("01_baseline/03_six_models", 1): [two_running_sums, running_sum, by_unstack, by_einsum],
    ("02_ops/01_indicator_column", 1): [flat_scatter, flat_segments, into_zeros, unknown_adds_nothing, by_bincount],
    ("02_ops/02_one_lookup", 1): [merge_sorted, merge_then_sort, merge_by_search, merge_by_rank],
    ("02_ops/03_ragged_attention", 1): [scores_by_repeat, scores_by_four_products, scores_by_search],
    ("02_ops/04_fused_gru", 1): [blocks_by_sort_of_negatives, blocks_by_top_k, blocks_by_padding],
    ("02_ops/05_fused_augru", 1): [cell_by_split, cell_by_difference, cell_by_einsum],
    ("02_ops/05_fused_augru", 2): [gradient_by_row_numbers, gradient_by_mask, gradient_by_roll],
    ("02_ops/06_sequence_parsing", 1): [hashed_by_stack, hashed_by_flat_values, hashed_before_the_mask],
    ("02_ops/07_interactions", 1): [pairs_by_set_diag, pairs_by_mask, pairs_by_flat_gather],
    ("02_ops/08_subgraphs", 1): [norm_as_the_formula, norm_by_einsum, norm_by_sums],
    ("02_ops/09_experts", 1): [experts_by_einsum, experts_by_unstack, experts_by_slices],
    ("02_ops/10_mixed_precision", 1): [half_with_bias_in_float32, half_by_einsum, half_as_a_function],
    ("02_ops/10_mixed_precision", 2): [clipped_by_hand, clipped_by_the_smaller, clipped_by_global_norm],
    ("02_ops/16_several_workers", 2): [joined_by_einsum, joined_by_product, joined_by_sums],
    ("03_embedding/05_multi_hash", 1): [quotient_by_divmod, quotient_by_add_n, quotient_by_gather_nd],
    ("03_embedding/05_multi_hash", 2): [code_by_shifts, code_by_powers, code_by_one_division],
    ("04_serving/07_user_once", 1): [users_by_einsum, users_by_lookup, users_by_add],
    ("04_serving/07_user_once", 2): [attend_by_einsum, attend_by_broadcast, attend_by_flat_rows],
}

"""The checks of the multi-hash lesson against right answers and every kind of wrong one."""

import numpy as np
import pytest
import tensorflow as tf
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed

LESSON = "03_embedding/05_multi_hash"
quotient_remainder, binary_code = solved(LESSON, 1), solved(LESSON, 2)


def not_modulo_the_second(ids, tables):
    m, q = (table.shape[0] for table in tables)
    return tf.gather(tables[0], ids % m) + tf.gather(tables[1], tf.minimum(ids // m, q - 1))


def two_remainders(ids, tables):
    """Not complementary: with a divisor in common, different ids get one pair."""
    m, q = (table.shape[0] for table in tables)
    return tf.gather(tables[0], ids % m) + tf.gather(tables[1], ids % q)


def multiplied(ids, tables):
    m, q = (table.shape[0] for table in tables)
    return tf.gather(tables[0], ids % m) * tf.gather(tables[1], ids // m % q)


def divided_by_the_other(ids, tables):
    m, q = (table.shape[0] for table in tables)
    return tf.gather(tables[0], ids % m) + tf.gather(tables[1], ids // q % q)


def remainder_alone(ids, tables):
    return tf.gather(tables[0], ids % tables[0].shape[0])


def in_32_bits(ids, tables):
    return quotient_remainder(tf.cast(ids, tf.int32), tables)


def in_floats(ids, tables):
    m, q = (table.shape[0] for table in tables)
    quotient = tf.cast(tf.floor(tf.cast(ids, tf.float64) / m), tf.int64)
    return tf.gather(tables[0], ids % m) + tf.gather(tables[1], quotient % q)


def without_gradient(ids, tables):
    return tf.stop_gradient(quotient_remainder(ids, tables))


def one_trained(ids, tables):
    return quotient_remainder(ids, [tables[0], tf.stop_gradient(tables[1])])


def all_codes(ids, tables):
    """Wrong: builds the whole table that the method should avoid."""
    m, q = (table.shape[0] for table in tables)
    whole = tf.reshape(tables[1][:, None, :] + tables[0][None, :, :], (m * q, -1))
    return tf.gather(whole, ids % (m * q))


def one_hot(ids, tables):
    m, q = (table.shape[0] for table in tables)
    return tf.one_hot(ids % m, m) @ tables[0] + tf.one_hot(ids // m % q, q) @ tables[1]


def in_numpy(ids, tables):
    return quotient_remainder(ids, tables).numpy()


def highest_first(ids, tables):
    keys, rows = ids, []
    for table in reversed(tables):
        rows.insert(0, tf.gather(table, keys % table.shape[0]))
        keys //= table.shape[0]
    return tf.concat(rows, axis=1)


def the_same_bits_for_all(ids, tables):
    return tf.concat([tf.gather(table, ids % table.shape[0]) for table in tables], axis=1)


def shifted_by_one_bit(ids, tables):
    return tf.concat([tf.gather(table, ids // 2**k % table.shape[0]) for k, table in enumerate(tables)], axis=1)


def skipping(ids, tables):
    n, bits = len(tables), int(np.log2(tables[0].shape[0]))
    keys = [sum((ids // 2 ** (k + j * n) % 2) * 2**j for j in range(bits)) for k in range(n)]
    return tf.concat([tf.gather(table, key) for table, key in zip(tables, keys)], axis=1)


def code_in_32_bits(ids, tables):
    return binary_code(tf.cast(ids, tf.int32), tables)


def backwards(ids, tables):
    return tf.reverse(binary_code(ids, tables), [1])


def stacked_rows(ids, tables):
    return tf.concat([tf.gather(table, ids % table.shape[0]) for table in tables], axis=0)


def of_width_five(ids, tables):
    return tf.reshape(quotient_remainder(ids, tables), (-1, 5))


def indices_in_numpy(ids, tables):
    """Right, but it can't be traced."""
    m, q = (table.shape[0] for table in tables)
    return tf.gather(tables[0], np.asarray(ids) % m) + tf.gather(tables[1], np.asarray(ids) // m % q)


def gradient_half_as_much_again(ids, tables):
    rows = quotient_remainder(ids, tables)
    return rows + 0.5 * (rows - tf.stop_gradient(rows))


def trains_large_batches(ids, tables):
    rows = quotient_remainder(ids, tables)
    return tf.where(tf.size(ids) > 35, rows, tf.stop_gradient(rows))


def id_by_id(ids, tables):
    m, q = (table.shape[0] for table in tables)
    return tf.map_fn(lambda i: tables[0][i % m] + tables[1][i // m % q], ids, fn_output_signature=tf.float32)


FIRST = [
    of_width_five,
    indices_in_numpy,
    gradient_half_as_much_again,
    trains_large_batches,
    id_by_id,
    in_numpy,
    not_modulo_the_second,
    two_remainders,
    multiplied,
    divided_by_the_other,
    remainder_alone,
    in_32_bits,
    in_floats,
    without_gradient,
    one_trained,
    all_codes,
    one_hot,
]


def two_blocks(ids, tables):
    return binary_code(ids, tables[:2])


def powers_in_floats(ids, tables):
    bits = np.log2(tables[0].shape[0])
    keys = [tf.cast(tf.cast(ids, tf.float64) // 2.0 ** (k * bits), tf.int64) for k in range(len(tables))]
    return tf.concat([tf.gather(table, key % table.shape[0]) for table, key in zip(tables, keys)], axis=1)


def the_rest_in_the_last(ids, tables):
    low, rest = binary_code(ids, tables[:-1]), ids
    for table in tables[:-1]:
        rest //= table.shape[0]
    return tf.concat([low, tf.gather(tables[-1], tf.minimum(rest, tables[-1].shape[0] - 1))], axis=1)


def one_off(ids, tables):
    return binary_code(ids + 1, tables)


def last_not_trained(ids, tables):
    return binary_code(ids, [*tables[:-1], tf.stop_gradient(tables[-1])])


SECOND = [
    two_blocks,
    powers_in_floats,
    the_rest_in_the_last,
    one_off,
    last_not_trained,
    highest_first,
    the_same_bits_for_all,
    shifted_by_one_bit,
    skipping,
    code_in_32_bits,
    backwards,
    stacked_rows,
]
test_right, test_wrong = judge(LESSON, {1: (quotient_remainder, FIRST), 2: (binary_code, SECOND)})


@pytest.mark.parametrize("answer", [all_codes, one_hot])
def test_what_is_too_large_fails_by_its_budget(answer):
    with pytest.raises(CheckFailed, match="Budget"):
        check.run(LESSON, 1, answer)

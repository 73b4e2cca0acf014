"""The checks of the multi-hash lesson against right answers and every kind of wrong one."""

import numpy as np
import pytest
import tensorflow as tf
from wrong_answers import judge

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed

LESSON = "03_embedding/05_multi_hash"


def quotient_remainder(ids, tables):
    m, q = (table.shape[0] for table in tables)
    return tf.gather(tables[0], ids % m) + tf.gather(tables[1], ids // m % q)


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
    """The whole table that was to be saved."""
    m, q = (table.shape[0] for table in tables)
    whole = tf.reshape(tables[1][:, None, :] + tables[0][None, :, :], (m * q, -1))
    return tf.gather(whole, ids % (m * q))


def one_hot(ids, tables):
    m, q = (table.shape[0] for table in tables)
    return tf.one_hot(ids % m, m) @ tables[0] + tf.one_hot(ids // m % q, q) @ tables[1]


def in_numpy(ids, tables):
    return quotient_remainder(ids, tables).numpy()


def zeros(ids, tables):
    return 0.0 * quotient_remainder(ids, tables)


def half(ids, tables):
    return tf.cast(tf.cast(quotient_remainder(ids, tables), tf.bfloat16), tf.float32)


def binary_code(ids, tables):
    keys, rows = ids, []
    for table in tables:
        rows.append(tf.gather(table, keys % table.shape[0]))
        keys //= table.shape[0]
    return tf.concat(rows, axis=1)


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


FIRST = [
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
    zeros,
    half,
]
SECOND = [
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

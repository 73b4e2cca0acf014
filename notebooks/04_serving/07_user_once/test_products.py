"""The multiply-adds of an answer's matrix products, however they are written."""

import numpy as np
import pytest
import tensorflow as tf
from ctrlab.lessons.topics.user_once.products import FewProducts, multiply_adds

from ctrlab.lessons.check import CheckFailed

A, B = np.ones((4, 5), np.float32), np.ones((5, 7), np.float32)
BATCH = np.ones((3, 4, 5), np.float32)

SAME = {
    "matmul": lambda a, b: tf.matmul(a, b),
    "operator": lambda a, b: a @ b,
    "transposed": lambda a, b: tf.matmul(tf.transpose(a), b, transpose_a=True),
    "transposed result": lambda a, b: tf.matmul(b, a, transpose_a=True, transpose_b=True),
    "einsum": lambda a, b: tf.einsum("ij,jk->ik", a, b),
    "tensordot": lambda a, b: tf.tensordot(a, b, 1),
    "a tf.function": tf.function(lambda a, b: tf.matmul(a, b)),
    "only a part is used": lambda a, b: tf.matmul(a, b)[:1],
}


@pytest.mark.parametrize("name", SAME)
def test_a_product_is_counted_however_it_is_written(name):
    assert multiply_adds(SAME[name], tf.constant(A), tf.constant(B)) == 4 * 5 * 7
    assert not tf.config.functions_run_eagerly()


@pytest.mark.parametrize("product", [tf.matmul, lambda a, b: tf.tensordot(a, b, 1), lambda a, b: tf.einsum("bij,jk->bik", a, b)])
def test_a_batch_of_products(product):
    assert multiply_adds(product, tf.constant(BATCH), tf.constant(B)) == 3 * 4 * 5 * 7


def test_products_add_up_and_other_ops_are_none():
    def several(a, b):
        return tf.sigmoid(tf.matmul(a, b) + tf.matmul(2 * a, b))

    assert multiply_adds(several, tf.constant(A), tf.constant(B)) == 2 * 4 * 5 * 7
    assert multiply_adds(lambda a, b: a * 2, tf.constant(A), tf.constant(B)) == 0
    assert multiply_adds(lambda a, b: tf.einsum("nc,tc->ntc", a, a), tf.constant(A), tf.constant(B)) == 0
    assert multiply_adds(tf.matmul, tf.zeros([0, 5]), tf.constant(B)) == 0


def test_shapes_are_those_of_the_run():
    def repeated(a, b):
        return tf.matmul(tf.repeat(a, [2, 0, 1, 3], axis=0), b)

    assert multiply_adds(repeated, tf.constant(A), tf.constant(B)) == 6 * 5 * 7


def test_more_than_a_budget_is_refused():
    def limit(most):
        given = tf.constant(A), tf.constant(B)
        on = {"on": lambda rng: given, "of": "two matrices"}
        return FewProducts(rule="one product", multiply_adds=most, **on, next_step="none", fewer="none")

    limit(140)(tf.matmul, np.random.default_rng())
    with pytest.raises(CheckFailed, match=r"Budget: one product\.\n.*at most 139 multiply-adds.*\n.*140"):
        limit(139)(tf.matmul, np.random.default_rng())

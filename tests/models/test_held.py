"""Assignments of a forward pass wait for the step: layers read them at once, and losses are the same."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ctrlab.models import held
from ctrlab.training import TouchedRows, loss_of, train_step


class Counting(keras.layers.Layer):
    """Adds one to a number twice a call, and 10 more in a branch, and adds a loss."""

    def __init__(self):
        super().__init__()
        self.count = self.add_weight(shape=(), initializer="zeros", trainable=False, name="count")
        self.inside = self.add_weight(shape=(), initializer="zeros", trainable=False, name="inside")
        self.built = True

    def compute_output_shape(self, shape):
        return shape

    def call(self, x):
        before = self.count.value + 0.0
        self.count.assign_add(1.0)
        self.count.assign_add(1.0)
        self.add_loss(self.count.value - before)  # 2: it is read at once

        def branch():
            self.inside.assign_add(10.0)
            return x

        return tf.cond(tf.reduce_sum(x) < 1e9, branch, lambda: x)


def made(loss_scale=0):
    inputs = keras.Input((3,))
    x = keras.layers.BatchNormalization()(Counting()(inputs))
    outputs = keras.layers.Dense(1, kernel_regularizer=keras.regularizers.L2(0.1))(keras.layers.Dropout(0.5, seed=1)(x))
    model, optimizer = keras.Model(inputs, outputs), TouchedRows("sgd", 0.1, loss_scale=loss_scale)
    optimizer.build(model.trainable_variables)
    return model, optimizer


X, Y = tf.constant(np.random.default_rng(0).normal(size=(8, 3)).astype("f4")), tf.ones([8, 1])


def state(model):
    return {v.path: v.numpy() for v in model.variables if not v.path.endswith("inside")}


def test_a_step_of_a_keras_model_assigns_what_its_layers_did():
    (plain, _), (model, optimizer) = made(), made()
    plain.set_weights(model.get_weights())
    loss, _ = loss_of(plain, X, Y, training=True)  # assigns at once
    assert float(train_step(model, optimizer)(X, Y)) == pytest.approx(float(loss), rel=1e-6)
    expected = [v.numpy() for v in plain.non_trainable_variables]
    assert len(expected) == 5  # two numbers, two moving statistics, the dropout's seed
    for v, value in zip(model.non_trainable_variables, expected):
        np.testing.assert_allclose(v.numpy(), value, rtol=1e-6, err_msg=v.path)


@pytest.mark.parametrize("loss_scale", [0, 2.0])
def test_a_step_that_was_not_taken_assigns_nothing(loss_scale):
    model, optimizer = made(loss_scale)
    step = train_step(model, optimizer)
    step(X, Y)
    before = state(model)
    if loss_scale:
        step(X * np.nan, Y)
    else:
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be finite; nothing was changed"):
            step(X * np.nan, Y)
    for path, array in state(model).items():
        np.testing.assert_array_equal(array, before[path], err_msg=path)


def test_an_optimizer_of_keras_counts_its_steps_too():
    model, _ = made()
    optimizer = keras.optimizers.SGD()
    optimizer.build(model.trainable_variables)
    with held.step(optimizer) as forward:
        forward.call(model, model, X, training=True)
        assert float(model.get_layer(index=1).count.value) == 0.0
        optimizer.apply([tf.zeros(v.shape) for v in model.trainable_variables], model.trainable_variables)
    assert float(model.get_layer(index=1).count.value) == 2.0

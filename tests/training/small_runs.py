"""A run that is quick to make, for tests of checkpoints."""

import keras
import tensorflow as tf

from ctrlab.training import TouchedRows


def small_model(inputs):
    layers = [keras.layers.Input([inputs]), keras.layers.Dropout(0.5), keras.layers.Dense(2, name="dense")]
    return keras.Sequential(layers, name="small")


def small_run(value=0.0):
    """A model that is quick to make, with a seed of its own."""
    model = small_model(3)
    optimizer = TouchedRows("adagrad")
    optimizer.build(model.trainable_variables)
    for v in model.trainable_variables:
        v.assign(tf.fill(v.shape, value))
    return model, optimizer


def steps(checkpoints, count):
    for number in range(count):
        checkpoints.optimizer.iterations.assign_add(1)
        checkpoints(number, 0.5)

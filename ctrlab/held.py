"""A forward pass whose assignments wait until the step is known to be taken.

forward   moving statistics of batch normalization, dropout seeds: held, not assigned
check     loss and gradients are finite, tables have room
step      weights, slots, tables, counts; then what was held
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import keras
import tensorflow as tf


class Held(keras.StatelessScope):
    """The values that Keras variables were given in it. A layer reads them at once; the variables get them later.

    An assignment inside a loop or a branch of the graph is not held, because its value can't leave the loop; nor is one to a
    `tf.Variable`.
    """

    def __init__(self):
        super().__init__(collect_losses=True)
        self._graph = tf.compat.v1.get_default_graph()
        self._variables: dict[int, keras.Variable] = {}

    def add_update(self, update):
        variable, value = update
        if tf.compat.v1.get_default_graph() is not self._graph:
            variable.value.assign(value)
            return
        self._variables[id(variable)] = variable
        super().add_update(update)

    def call(self, model: keras.Model, forward: Callable, *args, **kwargs):
        """`forward(...)`, the forward pass of `model`. The losses that its layers add are the model's."""
        with self:
            out = forward(*args, **kwargs)
        losses, self.losses = self.losses, []
        for loss in losses:
            keras.layers.Layer.add_loss(model, loss)  # a functional model's own refuses
        return out

    def assign(self, taken: tf.Tensor) -> None:
        """Gives the variables their values if `taken`, bool scalar, is true."""
        for variable in self._variables.values():
            variable.assign(tf.where(taken, self.get_current_value(variable), variable.value))


@contextlib.contextmanager
def step(optimizer: keras.optimizers.Optimizer) -> Iterator[Held]:
    """A block that holds a forward pass and `optimizer.apply`. What was held is assigned at its end if the optimizer counted a
    step: not if it raised, nor if it skipped the step for its loss scale."""
    held = Held()
    before = optimizer.iterations.value + 0
    yield held
    held.assign(optimizer.iterations.value > before)

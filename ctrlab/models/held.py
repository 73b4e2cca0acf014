"""A forward pass whose assignments wait until the step is known to be taken.

forward   moving statistics of batch normalization, dropout seeds: held, not assigned
check     what was held, loss and gradients are finite, tables have room
step      weights, slots, tables, counts; then what was held
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator

import keras
import tensorflow as tf

CURE = "steps: look for nan, inf and huge numbers in the batch, or lower the learning rate"


class Held(keras.StatelessScope):
    """A scope that holds back the values assigned to Keras variables. A layer reads them at once; the variables get them later.

    An assignment inside a loop or a branch of the graph is not held, because its value can't leave the loop; nor is one to a
    `tf.Variable`.

    Args:
        steps: number of steps taken so far, for the message of a refusal.
        skips: whether the optimizer skips a step whose gradients are not finite, so that nothing need be refused.
        checks: a context that orders all ops of the step after the check is entered into it.
    """

    def __init__(self, steps: tf.Tensor, skips: bool, checks: contextlib.ExitStack):
        super().__init__(collect_losses=True)
        self._steps, self._skips, self._checks = steps, skips, checks
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
        """Runs `forward(...)`, the forward pass of `model`. The losses that its layers add belong to the model."""
        with self:
            out = forward(*args, **kwargs)
        losses, self.losses = self.losses, []
        for loss in losses:
            keras.layers.Layer.add_loss(model, loss)  # a functional model's own refuses
        return out

    def checked(self, loss: tf.Tensor) -> tf.Tensor:
        """The loss, scalar. As with `given_if`, its gradient is only given if all held values are finite. One huge number makes a
        moving variance infinite forever, while the normalization hides it from loss and gradients.
        """
        floats = [v for v in self._variables.values() if tf.as_dtype(v.dtype).is_floating]
        if floats:
            sound = tf.stack([tf.reduce_all(tf.math.is_finite(self.get_current_value(v))) for v in floats])
            worst = tf.gather([v.path for v in floats], tf.argmin(tf.cast(sound, tf.int32)))
            sentence = "What a layer keeps of its batches must be finite; nothing was changed; received other numbers for"
            loss = given_if(tf.reduce_all(sound), loss, [sentence, worst, "after", self._steps, CURE], self._skips)
        self._checks.enter_context(tf.control_dependencies([loss]))  # Keras's optimizers count a step before they see a gradient
        return loss

    def assign(self, taken: tf.Tensor) -> None:
        """Gives the variables their values if `taken`, bool scalar, is true."""
        for variable in self._variables.values():
            variable.assign(tf.where(taken, self.get_current_value(variable), variable.value))


@contextlib.contextmanager
def step(optimizer: keras.optimizers.Optimizer) -> Iterator[Held]:
    """A context for a forward pass and `optimizer.apply` on the gradients of a `checked` loss. Held values are assigned at its
    end if the optimizer counted a step: not if it raised, nor if it skipped the step because of its loss scale.
    """
    before = optimizer.iterations.value + 0
    with contextlib.ExitStack() as checks:
        held = Held(before, bool(getattr(optimizer, "initial_scale", 0)), checks)
        yield held
        held.assign(optimizer.iterations.value > before)


def given_if(sound: tf.Tensor, loss: tf.Tensor, sentence: list, skips: bool) -> tf.Tensor:
    """The loss. Its gradient is only given if `sound`, bool scalar, is true.

    Otherwise it raises InvalidArgumentError, with the parts of `sentence`; or is NaN, if the optimizer `skips` steps whose
    gradients are not finite.
    """
    # The gradient is that of a product with a number that is only known after the check. With tf.custom_gradient, TensorFlow
    # would keep the graph, and the tables that it reads, as long as the process lives.
    check = None if skips else tf.raw_ops.Assert(condition=sound, data=sentence)
    with tf.control_dependencies([check] if check is not None else []):
        return loss * tf.where(tf.identity(sound), tf.ones([], loss.dtype), tf.constant(math.nan, loss.dtype))

"""Several training steps in one call of a graph: the rung "loop".

    for features, labels in batches:            while i < count and a batch is left:       inside one tf.function
        loss = step(features, labels)               loss = step(iterator.get_next())

Each step from Python costs a call: it wraps and passes the batch's tensors and waits for the loss, and the cores are idle
meanwhile. Inside the graph the next step begins at once. Keras calls this `steps_per_execution`.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

TOGETHER = 16
"""Maximum number of steps per call. They share the cost of the call, but a Ctrl-C waits until the call ends."""


class SeveralSteps:
    """A step from `train_step`, which can also be taken several times in one call.

    Args:
        step: (features, labels) -> loss, a tf.function.

    >>> steps = SeveralSteps(train_step(model, optimizer))     # doctest: +SKIP
    >>> losses, problem = steps.take(iter(batches), 10)        # doctest: +SKIP
    """

    def __init__(self, step: Callable):
        self.step = step
        with tf.device("CPU:0"):  # variables, because a graph that fails returns nothing
            self._losses = tf.Variable(tf.zeros([TOGETHER]), trainable=False)
            self._done = tf.Variable(0, trainable=False)
        self._several = tf.function(self._take, autograph=False, reduce_retracing=True)

    def __call__(self, features, labels) -> tf.Tensor:
        return self.step(features, labels)

    def take(self, iterator: tf.data.Iterator, count: int) -> tuple[list[float], BaseException | None]:
        """Takes up to `count` steps, at most `TOGETHER`, on the next batches. It stops after a loss that is not finite.

        Returns:
            The losses of the steps that were taken, fewer if the batches end or a step fails; and the exception that ended them,
            if there was one.
        """
        problem = None
        self._done.assign(0)  # here, because a call may fail before its graph begins
        try:
            self._several(iterator, tf.constant(min(count, TOGETHER)))
        except (tf.errors.OpError, KeyboardInterrupt) as error:  # Python handles Ctrl-C only after the call
            problem = error
        return self._losses[: self._done].numpy().tolist(), problem

    def _take(self, iterator, count: tf.Tensor) -> None:
        def more(done, go_on):
            return tf.logical_and(go_on, done < count)

        def body(done, go_on):
            batch = iterator.get_next_as_optional()
            return tf.cond(batch.has_value(), lambda: trained(done, batch), lambda: (done, False))

        def trained(done, batch):
            loss = tf.cast(self.step(*batch.get_value()), tf.float32)
            self._losses.scatter_nd_update([[done]], [loss])
            with tf.control_dependencies([loss]):
                return self._done.assign_add(1).value(), tf.math.is_finite(loss)

        tf.while_loop(more, body, (tf.constant(0), tf.constant(True)), parallel_iterations=1)

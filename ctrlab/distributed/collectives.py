"""Exchanges between workers, as differentiable ops on TensorFlow's own collectives over gRPC.

    summed      x of each worker            ->  the sum, the same bits everywhere
    exchanged   x[w] of each worker, for w  ->  what each of the others has for this one

An op has a key by which the workers' calls find each other. TensorFlow fixes an op's shape by the first call with its key, and a
call of another shape ends all exchanges of the process; so a size that changes from step to step is rounded up to one of `SIZES`,
and each of them has a key of its own.
"""

from __future__ import annotations

import itertools

import tensorflow as tf

GROUP = 1
"""The key of the group of all workers."""

_GROWTH = 9 / 8
SIZES = tuple(itertools.takewhile(lambda size: size < 2**31, dict.fromkeys(round(_GROWTH**k) for k in range(200))))
"""The sizes to which exchanges are rounded up; on average less than a sixteenth of an exchange is padding."""

KEYS_OF_OP = 1 << 8
"""The number of keys of a forward op: one for each of `SIZES`."""
BACKWARD = 1 << 19
"""The number that is added to an op's key for its gradient."""
KEYS_OF_PROGRAM = 1 << 20
"""The number of keys of a traced step."""


def padded(size: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The smallest of `SIZES` that is at least `size`, and its index: int32 scalars."""
    sizes = tf.constant(SIZES, tf.int32)
    number = tf.searchsorted(sizes, tf.cast(size, tf.int32)[None])[0]
    return sizes[number], number


def summed(x: tf.Tensor, workers: int, key) -> tf.Tensor:
    """The sum of all workers' `x`; its gradient is the sum of all workers' gradients."""
    return _reduce(x, tf.constant(workers), tf.constant(GROUP), tf.convert_to_tensor(key))


def exchanged(x: tf.Tensor, key) -> tf.Tensor:
    """Sends x[w] of x, [workers, ...], to worker w; returns [workers, ...] with the part that each worker sent here.
    Differentiable.
    """
    return _all_to_all(x, tf.constant(x.shape[0]), tf.constant(GROUP), tf.convert_to_tensor(key))


def _reduce(x, workers, group, key):
    return tf.raw_ops.CollectiveReduceV2(**_members(x, workers, group, key), merge_op="Add", final_op="Id")


def _all_to_all(x, workers, group, key):
    return tf.raw_ops.CollectiveAllToAllV2(**_members(x, workers, group, key))


def _members(x, workers, group, key) -> dict:
    # No `timeout_seconds`: TensorFlow starts a thread for each op that sleeps so long.
    names = {"group_size": workers, "group_key": group, "instance_key": key}
    return {"input": x, **names, "ordering_token": [_token()], "communication_hint": "ring"}


def _token() -> tf.Tensor:
    """A resource that no other op has. A `tf.function` runs collectives that have no resource, or share one, one after the other
    in the order of tracing. With a resource of its own, an exchange begins when its input is ready, in parallel with others and
    with the computing.
    """
    with tf.init_scope():
        return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name="the token of an exchange")


# The gradient of a sum of all workers' losses. TensorFlow has none for these ops.
@tf.RegisterGradient("CollectiveReduceV2")
def _reduce_gradient(op: tf.Operation, gradient: tf.Tensor) -> list:
    workers, group, key = op.inputs[1:4]
    return [_reduce(gradient, workers, group, key + BACKWARD), None, None, None, None]


@tf.RegisterGradient("CollectiveAllToAllV2")
def _all_to_all_gradient(op: tf.Operation, gradient: tf.Tensor) -> list:
    workers, group, key = op.inputs[1:4]
    return [_all_to_all(gradient, workers, group, key + BACKWARD), None, None, None, None]

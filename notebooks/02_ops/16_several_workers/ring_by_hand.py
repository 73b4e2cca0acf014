"""A step of real workers whose sums go through a learner's ring, over sockets between neighbours.

    worker 0 --> worker 1 --> ... --> worker W - 1 --> worker 0

`ctrlab.distributed.collectives` lets TensorFlow do the same. Tables are exchanged as usual.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Client, Listener

import numpy as np
import tensorflow as tf
from ctrlab.lessons.topics.several_workers.ring_in_threads import Line

from ctrlab import whole_batch
from ctrlab.whole_batch import SharedBatch

AllReduce = Callable[[np.ndarray, int, int, object], np.ndarray]
"""(numbers [n], this worker, workers, ring) -> their sum over all workers [n]; `ring` has `send` and `receive`."""
Joined = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
"""(rows of each worker [W], their means [W, n], their variances [W, n]) -> mean and variance over all rows, [n] each."""
HERE = "127.0.0.1"


@contextlib.contextmanager
def between(workers) -> Iterator[Line]:
    """The line of this process in the ring of all `Workers`, which enter together."""
    me, count = workers.shard.index, workers.shard.count
    with Listener((HERE, 0)) as listener, ThreadPoolExecutor(1) as sender:
        ports = [int(each[0]) for each in workers.gathered(np.array([listener.address[1]]))]
        with Client((HERE, ports[(me + 1) % count])) as to_next, listener.accept() as from_last:
            # All send at the same time: if each waited until its array has left, none would come to receive.
            yield Line(lambda numbers: sender.submit(to_next.send, numbers), from_last.recv)


class Ringed(SharedBatch):
    """A worker's part of a step: lookups as in `inner`, a `SharedStep`, and sums by the learner's all-reduce."""

    def __init__(self, inner, all_reduce: AllReduce, line: Line):
        self.inner, self.shard, self.rows = inner, inner.shard, inner.rows
        self._all_reduce, self._line, self._lock = all_reduce, line, threading.Lock()

    def total(self, x: tf.Tensor) -> tf.Tensor:
        @tf.custom_gradient
        def summed(x):
            # Ops that call Python run in the order of the trace, which is the same on all workers.
            found = tf.ensure_shape(tf.numpy_function(self._summed, [x], x.dtype), x.shape)
            return found, self.total

        return summed(x)

    def _summed(self, x: np.ndarray) -> np.ndarray:
        with self._lock:
            found = self._all_reduce(x.reshape(-1), self.shard.index, self.shard.count, self._line)
        return np.asarray(found, x.dtype).reshape(x.shape)

    def gathered(self, x: tf.Tensor) -> tf.Tensor:
        return self.inner.gathered(x)

    def lookup(self, read: Callable, tables: Sequence, columns: Sequence, layout, counted: bool) -> list[tf.Tensor]:
        return self.inner.lookup(read, tables, columns, layout, counted)

    def reduced(self, gradients: list, variables: Sequence) -> list:
        whole = [i for i, (g, v) in enumerate(zip(gradients, variables)) if g is not None and not whole_batch.is_sharded(v)]
        flat = [tf.reshape(tf.convert_to_tensor(gradients[i]), [-1]) for i in whole]
        summed = tf.split(self.total(tf.concat(flat, 0)), [variables[i].shape.num_elements() for i in whole])
        found = list(gradients)
        for i, part in zip(whole, summed):
            found[i] = tf.reshape(part, variables[i].shape)
        return found


@contextlib.contextmanager
def moments_by(joined: Joined) -> Iterator[None]:
    """A context in which batch normalization takes the statistics of the whole batch from `joined`."""

    def moments(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        shared = whole_batch.batch()
        if shared is None:
            return real(x)
        rows = tf.cast(tf.shape(x)[0], x.dtype)
        mean = tf.math.divide_no_nan(tf.reduce_sum(x, 0), rows)
        variance = tf.math.divide_no_nan(tf.reduce_sum(tf.square(x - mean), 0), rows)
        here = tf.one_hot(shared.shard.index, shared.shard.count, dtype=x.dtype)[:, None, None]
        of_all = shared.total(here * tf.stack([mean, variance])[None])  # [W, 2, n]
        return joined(tf.cast(shared.rows, x.dtype), of_all[:, 0], of_all[:, 1])

    real, whole_batch.moments = whole_batch.moments, moments
    try:
        yield
    finally:
        whole_batch.moments = real

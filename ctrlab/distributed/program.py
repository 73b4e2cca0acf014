"""A step in which several workers share a batch in a way of one's own: an all-reduce or an exchange of rows by other means.

    step = train_step(model, optimizer, Program(workers, lambda inner: Mine(inner)))

`Mine` is a `ctrlab.whole_batch.SharedBatch`. It gets the workers' own one, to which it can leave what it does not do itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import tensorflow as tf

from ctrlab import whole_batch
from ctrlab.whole_batch import SharedBatch


class Program:
    """In place of the `Workers` of a step: what is traced in it goes through `make(the workers' own SharedBatch)`."""

    def __init__(self, workers, make: Callable[[SharedBatch], SharedBatch]):
        self._workers, self._make = workers, make

    def program(self) -> Callable[[tf.Tensor | None], contextlib.AbstractContextManager]:
        """As of `Workers`."""
        real = self._workers.program()

        @contextlib.contextmanager
        def traced(rows: tf.Tensor | None) -> Iterator[None]:
            with real(rows), whole_batch.over(self._make(whole_batch.batch())):
                yield

        return traced

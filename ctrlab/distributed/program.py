"""A step of several workers with your own way to share a batch: another all-reduce, or another exchange of rows.

    step = train_step(model, optimizer, Program(workers, lambda inner: Mine(inner)))

`Mine` is a `ctrlab.whole_batch.SharedBatch`. It gets the workers' own one, to which it can delegate the calls that it does not
implement.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import tensorflow as tf

from ctrlab import whole_batch
from ctrlab.whole_batch import SharedBatch


class Program:
    """Replaces the `Workers` of a step: traced code uses `make(the workers' own SharedBatch)`."""

    def __init__(self, workers, make: Callable[[SharedBatch], SharedBatch]):
        self._workers, self._make = workers, make

    def program(self) -> Callable[[tf.Tensor | None], contextlib.AbstractContextManager]:
        """As in `Workers`."""
        real = self._workers.program()

        @contextlib.contextmanager
        def traced(rows: tf.Tensor | None) -> Iterator[None]:
            with real(rows), whole_batch.over(self._make(whole_batch.batch())):
                yield

        return traced

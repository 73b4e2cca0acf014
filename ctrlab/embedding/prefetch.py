"""Loads the rows of the next batch from the storage while the model trains on the current batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import tensorflow as tf

from ctrlab.embedding.variable import EmbeddingVariable

Batch = TypeVar("Batch")


def prefetched(
    batches: Iterable[Batch], keys: Callable[[Batch], Iterable[tuple[EmbeddingVariable, tf.Tensor]]]
) -> Iterator[Batch]:
    """Yields the batches, each when its rows are in memory. The variables' memory must hold the rows of two batches.

    The thread "ctrlab-prefetch" reads each batch and loads its rows. It ends with this generator, so close the generator if you
    may leave the loop early.

    Args:
        keys: a function from a batch to the embedding variables that its step looks up, each with its int64 keys.
    Raises:
        CtrlabError: the storage's errors. Errors of `batches` or `keys` are also raised when the batch is asked for.

    >>> with contextlib.closing(prefetched(batches, lambda batch: [(items, batch["item"])])) as ahead:  # doctest: +SKIP
    ...     for batch in ahead:
    ...         step(batch)
    """
    source, end = iter(batches), object()

    def fetch():
        batch = next(source, end)
        for variable, wanted in keys(batch) if batch is not end else ():
            variable.prefetch(wanted)
        return batch

    with ThreadPoolExecutor(1, "ctrlab-prefetch") as thread:
        coming = thread.submit(fetch)
        while (batch := coming.result()) is not end:
            coming = thread.submit(fetch)
            yield batch

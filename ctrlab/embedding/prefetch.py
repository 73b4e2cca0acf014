"""The rows of the next batch come up from the storage while the current one is trained on."""

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
    """The batches, each once its rows are in memory; for variables whose storage lets the memory hold the rows of two batches.

    A batch is read, and its rows are brought up, in the thread "ctrlab-prefetch", which ends with this generator. Close the
    generator where you may leave it early.

    Args:
        keys: of a batch, the embedding variables that its step looks up, and the int64 keys it looks up in each.
    Raises:
        CtrlabError: what the storage refuses; and whatever `batches` or `keys` raise: when the batch is asked for.

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

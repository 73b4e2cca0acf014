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

    Args:
        keys: of a batch, the embedding variables that its step looks up, and the int64 keys it looks up in each.
    Raises:
        CtrlabError: what the storage refuses, when the batch is asked for.

    >>> for batch in prefetched(batches, lambda batch: [(items, batch["item"])]):  # doctest: +SKIP
    ...     step(batch)
    """

    def fetch(batch: Batch) -> Batch:
        for variable, wanted in keys(batch):
            variable.prefetch(wanted)
        return batch

    with ThreadPoolExecutor(1, "ctrlab-prefetch") as thread:
        coming = None
        for batch in batches:
            following = thread.submit(fetch, batch)
            if coming:
                yield coming.result()
            coming = following
        if coming:
            yield coming.result()

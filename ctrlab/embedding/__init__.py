"""Embedding variables: tables without a fixed vocabulary. Rows are admitted, evicted, and moved to a disk when memory is full.

    table/      the native table as TensorFlow's ops see it
    store/      the on-disk store for rows that do not fit in memory; it knows nothing about tables
    formats/    the files that tables are saved in; training's checkpoints write them
    benches/    measurements of all of these

What a user calls lies beside these folders: variable, layer, options, choices, serving. `reference` defines the semantics.
"""

from ctrlab.lazy import loader

_PLACES = {
    "Embedding": "layer",
    **dict.fromkeys(("EmbeddingVariable", "close", "embedding_variables"), "variable"),
    **dict.fromkeys(
        ("BloomFilter", "CounterFilter", "GlobalStepEviction", "Initializer", "L2Eviction", "Options", "Storage"), "options"
    ),
    "served": "serving",
    "TableState": "table_state",
    "prefetched": "prefetch",
}
__all__ = [*sorted(_PLACES), "analysis", "choices"]
__getattr__ = loader(__name__, _PLACES)  # options, states and their analysis need no TensorFlow

"""Embedding variables: tables without a fixed vocabulary, whose rows come, stay, sink to a disk and go.

    table/      the native table as TensorFlow's ops see it
    store/      the store on a disk that rows sink to; it knows no table
    formats/    the files that tables are saved in; training's checkpoints write them
    benches/    what all that costs

Beside these lies what a user calls (variable, layer, options, choices, serving), and `reference`, which defines it.
"""

from ctrlab.lazy import loader

_PLACES = {
    "Embedding": "layer",
    **dict.fromkeys(("EmbeddingVariable", "embedding_variables"), "variable"),
    **dict.fromkeys(
        ("BloomFilter", "CounterFilter", "GlobalStepEviction", "Initializer", "L2Eviction", "Options", "Storage"), "options"
    ),
    "served": "serving",
    "TableState": "table_state",
    "prefetched": "prefetch",
}
__all__ = sorted(_PLACES)
__getattr__ = loader(__name__, _PLACES)  # options, states and their analysis need no TensorFlow

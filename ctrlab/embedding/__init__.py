"""Embedding variables: tables without a fixed vocabulary, whose rows come, stay, sink to a disk and go."""

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

"""Embedding variables: tables without a fixed vocabulary, whose rows come, stay, sink to a disk and go."""

import importlib

_PLACES = {
    "Embedding": "layer",
    "EmbeddingVariable": "variable",
    "embedding_variables": "variable",
    **dict.fromkeys(
        ("BloomFilter", "CounterFilter", "GlobalStepEviction", "Initializer", "L2Eviction", "Options", "Storage"), "options"
    ),
    "TableState": "state",
}
__all__ = sorted(_PLACES)


def __getattr__(name: str):
    """Loaded when first asked for: options, states and their analysis need no TensorFlow."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)

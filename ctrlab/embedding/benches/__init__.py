"""Benches of the embedding variable, of its store, and of lookup latency while the storage is busy."""

"""Benches of the embedding variable, of its store, and of what a lookup waits for meanwhile."""

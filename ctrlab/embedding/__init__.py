"""Embedding variables: tables without a fixed vocabulary, whose rows come, stay, sink to a disk and go."""

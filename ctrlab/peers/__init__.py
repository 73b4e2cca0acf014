"""Compares training steps with other libraries: same sizes, same batches, each peer in its own environment."""

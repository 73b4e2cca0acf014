"""Other libraries' training steps beside ours: the same sizes, the same batches, each peer in an environment of its own."""

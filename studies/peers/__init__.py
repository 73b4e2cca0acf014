"""`ctrlab bench peers`: training steps beside other libraries': same sizes, same batches, each peer in its own environment."""

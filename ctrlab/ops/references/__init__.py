"""The definition of each op, one file each, in plain NumPy float64, so that it is available without TensorFlow."""

"""The definition of each op, a file each: plain NumPy, float64, so that a machine without TensorFlow has them, too."""

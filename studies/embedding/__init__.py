"""`ctrlab bench embedding`: an embedding variable beside a dense table and TensorFlow's hash tables."""

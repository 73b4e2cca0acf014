"""`ctrlab bench groups`: session groups beside sessions of TensorFlow's own."""

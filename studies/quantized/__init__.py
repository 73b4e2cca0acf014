"""`ctrlab bench quantized`: models whose rows are served in fewer bits."""

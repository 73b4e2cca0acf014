"""`ctrlab bench published`: compares published results on more workers with the simulator."""

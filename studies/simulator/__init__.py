"""`ctrlab bench simulator`: measures the parts of a step that the simulator of many workers uses."""

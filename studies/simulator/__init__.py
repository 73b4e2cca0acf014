"""`ctrlab bench simulator`: the parts of a step that the simulator of many workers computes with."""

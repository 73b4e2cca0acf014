"""`ctrlab bench simulator-check`: the simulator beside steps that were measured over slow links."""

"""`ctrlab bench workers`: several workers over slow links."""

"""`ctrlab bench freshness`: from a click to the first answer that learned from it."""

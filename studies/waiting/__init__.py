"""`ctrlab bench waiting`: what lookups wait while the storage below them is at work."""

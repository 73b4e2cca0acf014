"""`ctrlab bench waiting`: measures how long lookups wait while the storage below them is busy."""

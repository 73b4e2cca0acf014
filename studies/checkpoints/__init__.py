"""`ctrlab bench checkpoints`: how long training stands still for a save."""

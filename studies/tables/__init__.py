"""`ctrlab bench tables`: shows records of measurements as tables in Markdown."""

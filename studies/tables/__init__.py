"""`ctrlab bench tables`: what was measured, as tables in Markdown."""

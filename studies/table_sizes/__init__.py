"""`ctrlab bench table-sizes`: measures how the size of the tables affects the AUC."""

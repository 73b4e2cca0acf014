"""`ctrlab bench quality`: the AUC of our models beside that of simple ones, on real samples."""

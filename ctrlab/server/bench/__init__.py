"""`ctrlab bench serving`: our server beside a stock server in Python, under the same load."""

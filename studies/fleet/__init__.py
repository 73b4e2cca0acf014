"""`ctrlab bench fleet`: compares the simulated machine with this one, and allocations of cores on a large machine."""

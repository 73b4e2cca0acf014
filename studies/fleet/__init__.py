"""`ctrlab bench fleet`: the simulated machine beside this one, and what sharing cores out is worth on a large one."""

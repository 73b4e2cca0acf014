"""Raw files as their publishers lay them out: what the data sets of `ctrlab/data/sets` share to read them."""

"""Readers of raw files in their publishers' formats, shared by the data sets of `ctrlab/data/sets`."""

"""What the commands of `ctrlab` do; `ctrlab.cli` says how they are called, and imports these only when they run."""

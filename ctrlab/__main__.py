"""`python -m ctrlab` is the command `ctrlab`."""

from ctrlab.cli import main

main()

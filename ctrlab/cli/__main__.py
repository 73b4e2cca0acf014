"""`python -m ctrlab.cli` is `ctrlab`."""

from ctrlab.cli import main

main()

"""`python -m studies NAME`: the process that `ctrlab bench NAME` becomes."""

from studies.app import app

app(prog_name="ctrlab bench")

"""`ctrlab bench`: a command for each kind of thing that is measured. Those of `studies` need a checkout of the repository."""

from __future__ import annotations

from ctrlab.cli.app import add_commands, make_app
from ctrlab.cli.bench import input, ops, serving, studies

app = make_app("Measure parts against each other.")
add_commands(app, ops, input, serving)
studies.add_to(app)

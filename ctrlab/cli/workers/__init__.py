"""`ctrlab workers`: training on many machines."""

from __future__ import annotations

from ctrlab.cli.app import add_commands, make_app
from ctrlab.cli.workers import plan, ray

app = make_app("Train on many machines.")
add_commands(app, ray, plan)

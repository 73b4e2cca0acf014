"""`ctrlab workers`: training on many machines."""

from __future__ import annotations

from ctrlab.cli.app import add_commands, make_app
from ctrlab.cli.workers import plan

app = make_app("Train on many machines.")
add_commands(app, plan)


@app.callback()
def group() -> None:
    """Train on many machines."""

"""`ctrlab data`: lists, generates, converts, joins and measures data sets."""

from __future__ import annotations

from ctrlab.cli.app import add_commands, make_app
from ctrlab.cli.data import convert, generate, join, list, statistics

app = make_app("Make, convert, join and look at data sets.")
add_commands(app, list, generate, convert, join, statistics)

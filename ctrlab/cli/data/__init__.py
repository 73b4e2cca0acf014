"""`ctrlab data`: data sets listed, generated, converted and measured."""

from __future__ import annotations

from ctrlab.cli.app import add_commands, make_app
from ctrlab.cli.data import convert, generate, list, statistics

app = make_app("Make, convert and look at data sets.")
add_commands(app, list, generate, convert, statistics)

"""`ctrlab embedding`: what the embedding variables of a training hold, and what is whole of a damaged storage."""

from __future__ import annotations

from ctrlab.cli.app import add_commands, make_app
from ctrlab.cli.embedding import analyze, salvage

app = make_app("Look into the embedding variables of a training.")
add_commands(app, analyze, salvage)

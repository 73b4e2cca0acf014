"""`ctrlab checkpoints`: merges and splits files of checkpoints, without a model."""

from __future__ import annotations

from ctrlab.cli.app import add_commands, make_app
from ctrlab.cli.checkpoints import merge, merge_deltas, reshard

app = make_app("Put the files of a training's checkpoints together, or cut them into shards.")
add_commands(app, merge, merge_deltas, reshard)

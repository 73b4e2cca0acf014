"""`ctrlab bench`: a command for each kind of thing that is measured."""

from __future__ import annotations

from ctrlab.cli.app import add_commands, make_app
from ctrlab.cli.bench import (
    checkpoints,
    embedding,
    fleet,
    freshness,
    graphs,
    groups,
    input,
    ops,
    peers,
    quality,
    quantized,
    serving,
    simulator,
    store,
    tables,
    waiting,
    workers,
)

app = make_app("Measure parts against each other.")
add_commands(
    app,
    ops,
    checkpoints,
    peers,
    input,
    embedding,
    store,
    waiting,
    freshness,
    quality,
    serving,
    graphs,
    groups,
    fleet,
    quantized,
    workers,
    simulator,
    tables,
)

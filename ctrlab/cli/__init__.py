"""The command line, `ctrlab`: a module for each command, a folder for each group; a module's name is its command's.

Each holds the function `command`: its help, its options and what it does. It imports what it needs when it runs: TensorFlow
takes seconds to import, and `--help` must not.
"""

from __future__ import annotations

from ctrlab.cli import (
    bench,
    checkpoints,
    data,
    doctor,
    embedding,
    export,
    lab,
    label,
    load,
    race,
    serve,
    train,
    tune,
    workers,
)
from ctrlab.cli.app import OneSentence, VersionOption, add_commands, make_app

app = make_app(
    "Six click models on stock TensorFlow, made fast one optimization at a time.",
    cls=OneSentence,
    add_completion=False,
    epilog="Start with `ctrlab doctor`, then `ctrlab race --models deepfm --profile tiny`.",
)


@app.callback()
def options(version: VersionOption = False) -> None:
    """Handles the options of `ctrlab` itself, which come before a command."""


add_commands(app, doctor, train, export, serve, load, label, race, tune, lab)
for name, group in {"data": data, "bench": bench, "checkpoints": checkpoints, "embedding": embedding, "workers": workers}.items():
    app.add_typer(group.app, name=name)


def main() -> None:
    """The entry point of the `ctrlab` command."""
    app(prog_name="ctrlab")

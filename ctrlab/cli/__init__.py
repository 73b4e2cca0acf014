"""The command line: `ctrlab doctor | data | train | checkpoints | embedding | tune | race | bench | lab`, cut into modules.

Each command imports what it needs when it runs: TensorFlow takes seconds to import, and `--help` must not.
"""

from __future__ import annotations

from ctrlab.cli import bench, checkpoints, data, embedding
from ctrlab.cli.app import OneSentence, make_app
from ctrlab.cli.training import race, train, tune
from ctrlab.cli.workbook import doctor, lab

app = make_app(
    "Six click models on stock TensorFlow, made fast one optimization at a time.",
    cls=OneSentence,
    add_completion=False,
    epilog="Start with `ctrlab doctor`, then `ctrlab race --models deepfm --profile tiny`.",
)
for command in (doctor, train, race, tune, lab):
    app.command()(command)
for name, group in {"data": data, "bench": bench, "checkpoints": checkpoints, "embedding": embedding}.items():
    app.add_typer(group.app, name=name)


def main() -> None:
    """The entry point of the `ctrlab` command."""
    app()

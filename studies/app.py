"""The command line of all studies: each is a command, `command` in the module `command` of its folder."""

from __future__ import annotations

import importlib

from ctrlab.cli.app import OneSentence, make_app
from ctrlab.cli.bench.studies import STUDIES

app = make_app("Measure parts against each other.", cls=OneSentence, add_completion=False)
for name in STUDIES:
    app.command(name)(importlib.import_module(f"studies.{name.replace('-', '_')}.command").command)

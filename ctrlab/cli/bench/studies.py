"""Commands for the studies: measurements and comparisons that only a checkout of the repository contains. Each runs in a separate
process. The package imports no study, so a study may import the whole package and anything else it needs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import typer

from ctrlab import paths
from ctrlab.errors import CtrlabError

STUDIES = {
    "checkpoints": "How long training stands still for a checkpoint.",
    "embedding": "An embedding variable beside a dense table and TensorFlow's hash tables.",
    "few-rows": "Presets on few rows beside regression and boosting.",
    "fleet": "Who gets which cores: the simulation beside this machine.",
    "freshness": "From a click to the first answer that learned from it.",
    "graphs": "Served graphs from ids beside onnxruntime.",
    "groups": "A session group beside sessions of TensorFlow's own.",
    "peers": "Training steps beside PyTorch with FBGEMM, DeepCTR, oneDNN.",
    "published": "What others published about more workers, simulated.",
    "quality": "AUC beside regression, boosting and a plain Keras model.",
    "quantized": "Rows in fewer bits: AUC, calibration, bytes, CPU time.",
    "simulator": "Parts of a step, for the simulator of many workers.",
    "simulator-check": "The simulator beside steps over slow links.",
    "store": "The store on a disk beside LevelDB and RocksDB.",
    "table-sizes": "What smaller embedding tables cost in AUC.",
    "tables": "Records of these measurements as tables in Markdown.",
    "waiting": "What lookups wait while the storage below them works.",
    "workers": "Several workers over slow links.",
}
"""{name of the command: what the study measures}."""


def add_to(app: typer.Typer) -> None:
    """Adds a command for each study, which passes all its arguments on to the study."""
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    for name, says in STUDIES.items():
        app.command(name, help=says, add_help_option=False, context_settings=anything)(_starter(name))


def _starter(name: str) -> Callable[[typer.Context], None]:
    def command(context: typer.Context) -> None:
        start(name, context.args)

    return command


def start(name: str, arguments: Sequence[str]) -> NoReturn:
    """Becomes the study's process, so that Ctrl-C, signals and the exit code are the study's own.

    Raises:
        CtrlabError: the package was installed without the checkout that holds the studies.
    """
    root = paths.checkout()
    if root is None:
        raise CtrlabError(
            f"`ctrlab bench {name}` comes with a checkout of the repository, and ctrlab runs from none: clone it, then run "
            "`make setup`."
        )
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    words = [sys.executable, "-P", "-m", "studies", name, *arguments]
    os.execve(sys.executable, words, os.environ | {"PYTHONPATH": path})

"""The `ctrlab train` that a launcher starts on each worker."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ctrlab.cli import train
from ctrlab.cli.app import make_app
from ctrlab.cli.train_options import checked
from ctrlab.errors import CtrlabError

CommandArgument = Annotated[list[str], typer.Argument(help="After two hyphens: train, and what it takes.", show_default=False)]
CountOption = Annotated[int, typer.Option("--workers", min=1, help="How many.")]


FOLDERS = ("checkpoint", "publish", "save", "follow")
"""Options whose files must outlive a worker."""


def resumable(words: Sequence[str], workers: int, below: Path | None = None) -> list[str]:
    """The words of a `ctrlab train` that goes on from its last save when it is started again.

    Args:
        words: "train" and its arguments.
        workers: how many of them are started.
        below: the folder in which all workers see their files; None: any.
    Raises:
        CtrlabError: it is another command, has no checkpoints or says how many workers; or what `checked` raises. Exit,
            UsageError: as of `ctrlab train`.
    """
    if list(words[:1]) != ["train"]:
        raise CtrlabError(
            "A launcher starts `ctrlab train` on each worker: give it after two hyphens, as in `-- train dlrm --checkpoint run`; "
            f"received {' '.join(words)}."
        )
    with _train().make_context("ctrlab train", [*words[1:]]) as context:
        options = context.params
    if options["workers"]:
        raise CtrlabError("The launcher says how many workers there are; leave out the --workers of `train`.")
    if not options["checkpoint"] or not _lies_below(below, options["checkpoint"]):
        where = f"a folder below {below}, which all workers share" if below else "a folder that all workers see"
        raise CtrlabError(
            f"When a worker is lost, all start again and go on from their last save: give `train` --checkpoint with {where}, and "
            "--every."
        )
    for name in FOLDERS:
        if options[name] and not _lies_below(below, options[name]):
            raise CtrlabError(f"Workers keep files below {below}, which all share; received --{name} {options[name]}.")
    checked(options, workers)
    return [*words] if options["resume"] else [*words, "--resume"]


def _lies_below(below: Path | None, path: Path) -> bool:
    return below is None or Path(os.path.normpath(path)).is_relative_to(below)


def run(words: Sequence[str]) -> None:
    """Runs it in this process."""
    _train().main([*words[1:]], prog_name="ctrlab train", standalone_mode=False)


def _train() -> typer.core.TyperCommand:
    app = make_app("")
    app.command()(train.command)
    return typer.main.get_command(app)

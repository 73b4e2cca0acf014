"""`ctrlab workers ray`: a training in the processes of Ray."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated

import typer

from ctrlab.cli import train
from ctrlab.cli.app import make_app
from ctrlab.cli.train_options import checked
from ctrlab.errors import CtrlabError


def command(
    words: Annotated[list[str], typer.Argument(help="After two hyphens: train, and what it takes.", show_default=False)],
    workers: Annotated[int, typer.Option("--workers", min=1, help="How many.")],
    cpus: Annotated[int | None, typer.Option(min=1, help="Of each worker; else all CPUs are shared out.")] = None,
    retries: Annotated[int, typer.Option(min=0, help="How often all start again when one is lost.")] = 3,
) -> None:
    """Train in processes of Ray: of the cluster that RAY_ADDRESS names, or else of this machine.

    - `ctrlab workers ray --workers 4 -- train dlrm --optimizations all --checkpoint run --every 1000`
    """
    from ctrlab.distributed.ray_workers import on_ray

    on_ray(workers, functools.partial(run, resumable(words, workers)), cpus=cpus, retries=retries)


def resumable(words: Sequence[str], workers: int) -> list[str]:
    """The words of a `ctrlab train` that continues from its last save when it is started again.

    Args:
        words: "train" and its arguments.
        workers: number of workers that are started.
    Raises:
        CtrlabError: it is another command, has no checkpoints, or sets the number of workers; or as in `checked`. Exit,
            UsageError: as in `ctrlab train`.
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
    if not options["checkpoint"]:
        raise CtrlabError(
            "When a worker is lost, all start again and go on from their last save: give `train` --checkpoint with a folder that "
            "all workers see, and --every."
        )
    checked(options, workers)
    return [*words] if options["resume"] else [*words, "--resume"]


def run(words: Sequence[str]) -> None:
    """Runs the command in this process."""
    _train().main([*words[1:]], prog_name="ctrlab train", standalone_mode=False)


def _train() -> typer.core.TyperCommand:
    app = make_app("")
    app.command()(train.command)
    return typer.main.get_command(app)

"""`ctrlab workers ray`: a training in the processes of Ray."""

from __future__ import annotations

import functools
from typing import Annotated

import typer

from ctrlab.cli.workers.training import CommandArgument, CountOption, resumable, run


def command(
    words: CommandArgument,
    workers: CountOption,
    cpus: Annotated[int | None, typer.Option(min=1, help="Of each worker; else all CPUs are shared out.")] = None,
    retries: Annotated[int, typer.Option(min=0, help="How often all start again when one is lost.")] = 3,
) -> None:
    """Train in processes of Ray: of the cluster that RAY_ADDRESS names, or else of this machine.

    - `ctrlab workers ray --workers 4 -- train dlrm --optimizations all --checkpoint run --every 1000`
    """
    from ctrlab.distributed.ray_workers import on_ray

    on_ray(workers, functools.partial(run, resumable(words, workers)), cpus=cpus, retries=retries)

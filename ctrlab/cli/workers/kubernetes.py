"""`ctrlab workers kubernetes`: the manifest of a training on several pods."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctrlab.cli.workers.training import CommandArgument, CountOption, resumable


def command(
    words: CommandArgument,
    workers: CountOption,
    image: Annotated[str, typer.Option(help="A container image with ctrlab in it.")],
    claim: Annotated[str, typer.Option(help="The PersistentVolumeClaim of a volume that all pods can write to.")],
    name: Annotated[str, typer.Option(help="Of the Job and its Service.")] = "train",
    cpus: Annotated[int, typer.Option(min=1, help="Of each worker.")] = 4,
    memory: Annotated[str, typer.Option(help="Of each worker.")] = "16Gi",
) -> None:
    """Print the manifest of a Job whose pods train together, and start again when one is lost. The volume lies at /shared.

    - `ctrlab workers kubernetes --workers 4 --image lab:1 --claim runs -- train dlrm --checkpoint /shared/run --every 1000`
    """
    from ctrlab.distributed.kubernetes import MOUNT, kubernetes_job

    started = ["ctrlab", *resumable(words, workers, Path(MOUNT))]
    print(kubernetes_job(started, workers, image=image, claim=claim, name=name, cpus=cpus, memory=memory), end="")

"""`ctrlab train`, `ctrlab race` and `ctrlab tune`: what trains models."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import typer

from ctrlab.cli.app import FormatOption, JsonOption, ModelArgument, ProfileOption, SourceOption
from ctrlab.errors import CtrlabError


def train(
    model: ModelArgument,
    optimizations: Annotated[str, typer.Option(help="none, all, all+results, or names joined by commas.")] = "none",
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training rows.")] = 1,
    data: SourceOption = "generated",
    format: FormatOption = "parquet",
    profile: ProfileOption = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of the first weights and the shuffling.")] = 2021,
    save: Annotated[Path | None, typer.Option(help="Write the trained model to this .keras file.", dir_okay=False)] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Save the training's state in this folder.", file_okay=False)] = None,
    every: Annotated[int | None, typer.Option(min=1, help="Save after so many steps; else only at the end.")] = None,
    full_every: Annotated[int | None, typer.Option(min=1, help="Every so many saves: embedding tables whole.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the folder's last whole checkpoint.")] = False,
    embedding: Annotated[
        Literal["hashed", "multihash", "variable"], typer.Option(help="How the large tables keep their embeddings.")
    ] = "hashed",
    admission: Annotated[int | None, typer.Option(min=1, help="Variable: an id gets its row when it has come so often.")] = None,
    evict_after: Annotated[
        int | None, typer.Option(min=1, help="Variable: at each save rows go that came in none of so many steps.")
    ] = None,
    storage: Annotated[
        Path | None, typer.Option(help="Variable: a folder on a disk for the rows that memory has no room for.", file_okay=False)
    ] = None,
    memory_rows: Annotated[int | None, typer.Option(min=1, help="Variable: rows of each table that stay in memory.")] = None,
) -> None:
    """Train one model and hold its AUC against the best that is possible on its data.

    - `ctrlab train deepfm --optimizations all --save deepfm.keras`
    - `ctrlab train wdl --optimizations all --checkpoint run --every 1000 --resume`
    - `ctrlab train din --data real --epochs 2`
    - `ctrlab train dlrm --embedding variable --admission 2 --checkpoint run --every 1000 --full-every 24`
    """
    from ctrlab.commands import import_tensorflow

    if checkpoint is None and (every or full_every or resume):
        raise CtrlabError("--every, --full-every and --resume are about checkpoints; give their folder with --checkpoint.")
    if full_every and embedding != "variable":
        raise CtrlabError(
            "--full-every spares the rows that did not change, which only variables know; add --embedding variable."
        )
    if evict_after and checkpoint is None:
        raise CtrlabError("--evict-after lets rows go at each save; give a folder for checkpoints with --checkpoint.")
    choice = _choice(embedding, admission, evict_after, storage, memory_rows)
    import_tensorflow()
    from ctrlab.commands.train import run
    from ctrlab.race.contest import data_set
    from ctrlab.training import Saving, Spec

    run(
        Spec(
            model=model,
            optimizations=optimizations,
            data_set=data_set(model, data) if data == "real" else None,
            source=data,
            format=format,
            profile=profile,
            embedding=choice,
            seed=seed,
            epochs=epochs,
            saving=Saving(checkpoint, every, full_every or 1, resume) if checkpoint else None,
        ),
        save,
    )


def _choice(embedding: str, admission: int | None, evict_after: int | None, storage: Path | None, memory_rows: int | None):
    """What the options say of embeddings, as `ctrlab.build` takes it.

    Raises:
        CtrlabError: options of variables for another embedding; a storage without a size of the memory above it, or one alone.
    """
    from ctrlab.embedding.choices import NAMES, Variable
    from ctrlab.embedding.options import CounterFilter, GlobalStepEviction, Storage

    if embedding != "variable":
        if admission or evict_after or storage or memory_rows:
            raise CtrlabError(
                "--admission, --evict-after, --storage and --memory-rows are for rows that come and go; add --embedding variable."
            )
        return NAMES[embedding]
    if (storage is None) != (memory_rows is None):
        raise CtrlabError("--storage and --memory-rows go together: the rows beyond so many sink to that folder; give both.")
    options = dataclasses.replace(
        Variable().options,
        admission=CounterFilter(admission) if admission else None,
        eviction=GlobalStepEviction(evict_after) if evict_after else None,
        storage=Storage(str(storage), memory_rows) if storage else None,
    )
    return Variable(options)


def race(
    models: Annotated[str, typer.Option(help="all, or names joined by commas.")] = "all",
    optimizations: Annotated[
        str, typer.Option(help="Sets joined by commas; the rungs of one set are joined by +. The baseline always races.")
    ] = "none,all",
    profile: ProfileOption = None,
    data: SourceOption = "generated",
    json_path: JsonOption = None,
    html: Annotated[Path | None, typer.Option(help="Write a report that needs nothing else to be read.", dir_okay=False)] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted race of the same options.")] = False,
) -> None:
    """Train the contest's six models against the clock, each set of optimizations against the baseline.

    The score is the contest's: training seconds at its numbers of steps, added up. A set whose AUC falls below the baseline's
    by more than three standard deviations over seeds does not count. Interrupted, the race keeps the models that are done.

    - `ctrlab race --models deepfm --profile tiny`
    - `ctrlab race --optimizations none,indicator,all --html race.html`
    - `ctrlab race --data real --json race.json --resume`
    """
    from ctrlab.commands.race import run

    run(models, optimizations, profile, data, json_path, html, resume)


def tune(
    model: ModelArgument,
    budget: Annotated[float, typer.Option(min=1, help="Seconds that the search may take.")] = 120.0,
    optimizations: Annotated[str, typer.Option(help="The set that the model will be trained with.")] = "all",
    profile: ProfileOption = None,
    html: Annotated[Path | None, typer.Option(help="Write the heat maps to this file.", dir_okay=False)] = None,
) -> None:
    """Find the threads and buffers that train a model fastest on this machine, and keep them for the rung "threads".

    - `ctrlab tune dlrm --budget 300`
    """
    from ctrlab.commands import import_tensorflow

    import_tensorflow()
    from ctrlab.commands.tune import run

    run(model, optimizations, budget, profile, html)

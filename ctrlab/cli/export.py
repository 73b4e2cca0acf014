"""`ctrlab export`: a run's checkpoint as a version that servers load."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Literal

import typer

from ctrlab.cli.app import ProfileOption, SourceOption, console, import_tensorflow


def command(
    run: Annotated[Path, typer.Argument(help="The folder with the run's checkpoints.")],
    out: Annotated[Path, typer.Option(help="The model's folder; the version becomes a folder in it, named by its number.")],
    optimizations: Annotated[
        str,
        typer.Option(help="`stock` for TensorFlow's own ops only; `all,bf16` and `all,int8_rows` change results a little."),
    ] = "all",
    inputs: Annotated[Literal["text", "ids"], typer.Option(help="What requests hold: raw text, or ids made of it.")] = "text",
    number: Annotated[int | None, typer.Option("--version", min=1, help="Its number, above all before; else the next.")] = None,
    memory_rows: Annotated[
        int | None,
        typer.Option(min=1, max=2**31 - 1, help="Rows of a growing table that stay in a server's memory; else as trained."),
    ] = None,
    share_users: Annotated[
        bool, typer.Option("--share-users", help="Requests may hold a user once for all candidates; the graph computes it once.")
    ] = False,
    data: SourceOption = "generated",
    profile: ProfileOption = None,
) -> None:
    """Export a trained model for serving. With `--optimizations stock` any program with TensorFlow loads it as it is.

    Warm-up requests are held-out rows of the model's data set (`--data`, `--profile`).

    - `ctrlab train dlrm --checkpoint run`
    - `ctrlab export run --out models/ctr`
    """
    import_tensorflow()
    from ctrlab.data import prepare
    from ctrlab.serving import export_model, load, read_manifest
    from ctrlab.serving.export import levels
    from ctrlab.serving.warm_up import EXAMPLES, rows_of

    with tempfile.TemporaryDirectory(prefix="ctrlab-export-") as storage:
        built, served = levels(optimizations)
        model, save = load(run, built, storage)
        files = prepare(model.schema.name, profile=profile, source=data)
        rows = rows_of(files.read_test(EXAMPLES))
        options = {"inputs": inputs, "rows": rows, "number": number, "memory_rows": memory_rows, "share_users": share_users}
        folder = export_model(model, out, save=save, optimizations=served, **options)
    found = read_manifest(folder)
    size = sum(file.bytes for file in found.files.values())
    console().print(
        f"Version {folder.name}: {folder}, {size / 1e6:,.1f} MB, {found.model['kind']} after {found.step:,} steps, "
        f"{len(found.inputs)} columns of {inputs}, {len(found.warm_up)} warm-up requests.",
        soft_wrap=True,
    )

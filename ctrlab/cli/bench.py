"""`ctrlab bench`: a command for each kind of thing that is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctrlab.cli.app import JsonOption, ModelArgument, ProfileOption, make_app

app = make_app("Measure parts against each other.")


@app.command("ops")
def bench_ops(
    names: Annotated[list[str] | None, typer.Argument(help="Benches; all if none is named.")] = None,
    json_path: JsonOption = None,
    profile: ProfileOption = None,
) -> None:
    """Time every op's implementations against each other, in pairs, and against this machine's limits.

    - `ctrlab bench ops`
    - `ctrlab bench ops indicator --json ops.json`
    """
    from ctrlab.commands import import_tensorflow

    import_tensorflow()
    from ctrlab.commands import bench

    bench.ops(names, profile, json_path)


@app.command("checkpoints")
def bench_checkpoints(
    model: ModelArgument = "wdl",
    optimizations: Annotated[str, typer.Option(help="none, all, all+results, or names joined by commas.")] = "all",
    profile: ProfileOption = None,
) -> None:
    """Time how long training stands still for a checkpoint: written in the loop, by a thread, by TensorFlow's own.

    - `ctrlab bench checkpoints wdl`
    """
    from ctrlab.commands import import_tensorflow

    import_tensorflow()
    from ctrlab.commands import bench

    bench.checkpoints(model, optimizations, profile)


@app.command("peers")
def bench_peers(
    names: Annotated[list[str] | None, typer.Argument(help="Cases; all if none is named.")] = None,
    json_path: JsonOption = None,
    profile: ProfileOption = None,
) -> None:
    """Time our training steps beside other libraries': PyTorch with FBGEMM and torchrec, DeepCTR, oneDNN.

    Each library gets an environment of its own below the cache folder, the first time; the same sizes and batches go to all.

    - `ctrlab bench peers`
    - `ctrlab bench peers lookup dlrm --json peers.json`
    """
    from ctrlab.commands import import_tensorflow

    import_tensorflow()
    from ctrlab.commands import peers

    peers.run(names, profile, json_path)


@app.command("input")
def bench_inputs(
    name: Annotated[str, typer.Argument(help="A data set.")] = "criteo",
    profile: ProfileOption = None,
) -> None:
    """Time CSV, TFRecord and Parquet from the file to batches of ids, and beside them what pyarrow alone reads.

    - `ctrlab bench input criteo`
    """
    from ctrlab.commands import import_tensorflow

    import_tensorflow()
    from ctrlab.commands import bench

    bench.inputs(name, profile)


@app.command("embedding")
def bench_embeddings(json_path: JsonOption = None, profile: ProfileOption = None) -> None:
    """Time an embedding variable's lookup beside a dense table's and beside TensorFlow's hash tables; report its memory.

    - `ctrlab bench embedding --profile full`
    - `ctrlab bench embedding --json embedding.json`
    """
    from ctrlab.commands import import_tensorflow

    import_tensorflow()
    from ctrlab.commands import bench

    bench.embedding(profile, json_path)


@app.command("store")
def bench_stores(
    row_bytes: Annotated[
        list[int] | None, typer.Argument(help="Bytes a row, multiples of 8; 64 and 256 if none is named.")
    ] = None,
    json_path: JsonOption = None,
    profile: ProfileOption = None,
    html: Annotated[Path | None, typer.Option(help="Write the plot of latencies to this file.", dir_okay=False)] = None,
) -> None:
    """Time the store of rows on a disk beside LevelDB and RocksDB, where their libraries are installed.

    - `ctrlab bench store`
    - `ctrlab bench store 64 --json store.json --html store.html`
    """
    from ctrlab.commands import import_tensorflow

    import_tensorflow()
    from ctrlab.commands import bench

    bench.store(row_bytes or [64, 256], profile, json_path, html)


@app.command("waiting")
def bench_waiting(
    json_path: JsonOption = None,
    profile: ProfileOption = None,
    html: Annotated[Path | None, typer.Option(help="Write the plot of waits against time to this file.", dir_okay=False)] = None,
) -> None:
    """Time what lookups wait while an embedding variable's storage is opened, updated, evicted from and compacted.

    - `ctrlab bench waiting`
    - `ctrlab bench waiting --profile full --json waiting.json --html waiting.html`
    """
    from ctrlab.commands import import_tensorflow

    import_tensorflow()
    from ctrlab.commands import waiting

    waiting.run(profile, json_path, html)

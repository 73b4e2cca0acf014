"""The command line: `ctrlab doctor | data | train | checkpoints | tune | race | bench | lab`.

Each command imports what it needs when it runs: TensorFlow takes seconds to import, and `--help` must not.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer.core import TyperGroup

from ctrlab.errors import CtrlabError

INTERRUPTED = 130  # what shells give for Ctrl-C


class OneSentence(TyperGroup):
    """A group of commands that turns what a user can mend into one sentence on stderr and exit code 1."""

    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except CtrlabError as problem:
            raise _exit(str(problem), 1) from None
        except KeyboardInterrupt as interrupt:
            raise _exit(str(interrupt) or "Interrupted.", INTERRUPTED) from None
        except OSError as problem:
            if problem.errno == errno.EPIPE:  # `| head` has read enough
                raise
            raise _exit(_of_system(problem), 1) from None


def _exit(sentence: str, code: int) -> typer.Exit:
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, soft_wrap=True).print(Text(sentence, style="" if code == INTERRUPTED else "red"))
    return typer.Exit(code)


def _of_system(problem: OSError) -> str:
    where = f" ({problem.filename})" if problem.filename else ""
    if problem.errno == errno.ENOSPC:
        return f"The disk is full{where}. Free some space, or point CTRLAB_CACHE to a folder on a bigger disk."
    return f"The system refused: {problem.strerror or problem}{where}. Check the path and its permissions."


def _app(help: str, **options) -> typer.Typer:
    return typer.Typer(help=help, no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False, **options)


app = _app(
    "Six click models on stock TensorFlow, made fast one optimization at a time.",
    cls=OneSentence,
    add_completion=False,
    epilog="Start with `ctrlab doctor`, then `ctrlab race --models deepfm --profile tiny`.",
)
data = _app("Make, convert and look at data sets.")
bench = _app("Measure parts against each other.")
app.add_typer(data, name="data")
app.add_typer(bench, name="bench")
checkpoints = _app("Put the files of a training's checkpoints together, or cut them into shards.")
app.add_typer(checkpoints, name="checkpoints")

ProfileOption = Annotated[str | None, typer.Option(help="tiny, lesson or full; else CTRLAB_PROFILE, else lesson.")]
SourceOption = Annotated[
    Literal["generated", "real"],
    typer.Option(help="Generated rows, or the samples in the folder that CTRLAB_REAL_DATA names."),
]
Format = Literal["csv", "tfrecord", "tfrecord.gz", "parquet"]
FormatOption = Annotated[Format, typer.Option(help="How the rows are stored.")]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Write the result to this file.", dir_okay=False)]


@app.command()
def doctor() -> None:
    """Say what this machine has, what is missing, which lessons work here, and how to mend the rest."""
    from ctrlab.lessons import doctor

    raise typer.Exit(0 if doctor.report() else 1)


@data.command("list")
def list_data() -> None:
    """The data sets: their columns, their labels, and the models that train on them."""
    from ctrlab.commands import data

    data.show()


@data.command("generate")
def generate_data(
    name: Annotated[str, typer.Argument(help="A data set, or all.")],
    rows: Annotated[int | None, typer.Option(min=1, help="Rows; else the profile's, with held-out rows apart.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write; else the cache, where lessons and race find it.")] = None,
    format: Annotated[Format | None, typer.Option(help="How rows are stored; else by --out's ending, else parquet.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same rows.")] = 0,
    profile: ProfileOption = None,
) -> None:
    """Make rows with a planted model behind their labels, and say the AUC that this model itself comes to.

    - `ctrlab data generate all --profile lesson`
    - `ctrlab data generate criteo --rows 1000000 --out criteo.parquet`
    """
    from ctrlab.commands import data

    data.generate(name, rows, out, format, seed, profile)


@data.command("convert")
def convert_data(
    name: Annotated[str, typer.Argument(help="The data set that the files are of.")],
    files: Annotated[list[Path], typer.Argument(help="The files as they were downloaded, plain or gzip.")],
    out: Annotated[Path, typer.Option(help="The Parquet file to write.")],
) -> None:
    """Convert raw files to Parquet. Rows that break the format go to a rejects file beside it, with file, line and reason.

    - `ctrlab data convert criteo train.txt.gz --out criteo.parquet`
    """
    from ctrlab.commands import data

    data.convert(name, files, out)


@data.command("statistics")
def data_statistics(
    name: Annotated[str, typer.Argument(help="The data set that the file is of.")],
    file: Annotated[Path, typer.Argument(help="A Parquet file, as `ctrlab data convert` writes it.")],
) -> None:
    """Measure what the generators follow: how ids are spread, where numbers lie, how long lists are. Prints JSON.

    - `ctrlab data statistics criteo criteo.parquet > criteo.json`
    """
    from ctrlab.commands import data

    data.statistics(name, file)


@app.command()
def train(
    model: Annotated[str, typer.Argument(help="wdl, deepfm, dlrm, din, dien or mmoe.")],
    optimizations: Annotated[str, typer.Option(help="none, all, all+results, or names joined by commas.")] = "none",
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training rows.")] = 1,
    data: SourceOption = "generated",
    format: FormatOption = "parquet",
    profile: ProfileOption = None,
    seed: Annotated[int, typer.Option(help="Of the first weights and the shuffling.")] = 2021,
    save: Annotated[Path | None, typer.Option(help="Write the trained model to this .keras file.", dir_okay=False)] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Save the training's state in this folder.", file_okay=False)] = None,
    every: Annotated[int | None, typer.Option(min=1, help="Save after so many steps; else only at the end.")] = None,
    full_every: Annotated[int | None, typer.Option(min=1, help="Every so many saves: embedding tables whole.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the folder's last whole checkpoint.")] = False,
) -> None:
    """Train one model and hold its AUC against the best that is possible on its data.

    - `ctrlab train deepfm --optimizations all --save deepfm.keras`
    - `ctrlab train wdl --optimizations all --checkpoint run --every 1000 --resume`
    - `ctrlab train din --data real --epochs 2`
    """
    from ctrlab.commands import import_tensorflow

    if checkpoint is None and (every or full_every or resume):
        raise CtrlabError("--every, --full-every and --resume are about checkpoints; give their folder with --checkpoint.")
    import_tensorflow()
    from ctrlab.commands.train import Saving, run

    saving = Saving(checkpoint, every, full_every or 1, resume) if checkpoint else None
    run(model, optimizations, epochs, data, format, profile, seed, save, saving)


@checkpoints.command("merge")
def checkpoints_merge(
    folder: Annotated[Path, typer.Argument(help="A folder of checkpoints; its last whole one is taken.", file_okay=False)],
    out: Annotated[Path, typer.Argument(help="The folder for the one file.", file_okay=False)],
) -> None:
    """Merge a full save and the deltas that follow it into one full save, which any run can resume from.

    - `ctrlab checkpoints merge run merged`
    """
    from ctrlab.commands import checkpoints

    checkpoints.merge(folder, out)


@checkpoints.command("reshard")
def checkpoints_reshard(
    files: Annotated[list[Path], typer.Argument(help="One full save, or all shards of one.", dir_okay=False)],
    out: Annotated[Path, typer.Option(help="The folder for the shards.", file_okay=False)],
    shards: Annotated[int, typer.Option(min=1, help="Into how many.")],
) -> None:
    """Cut embedding tables by their keys into another number of shards, a file each; everything else is in each of them.

    - `ctrlab checkpoints reshard run/step-000001000.safetensors --shards 4 --out four`
    """
    from ctrlab.commands import checkpoints

    checkpoints.reshard(files, out, shards)


@app.command()
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


@bench.command("ops")
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


@bench.command("checkpoints")
def bench_checkpoints(
    model: Annotated[str, typer.Argument(help="wdl, deepfm, dlrm, din, dien or mmoe.")] = "wdl",
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


@bench.command("peers")
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


@bench.command("input")
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


@bench.command("embedding")
def bench_embeddings(json_path: JsonOption = None, profile: ProfileOption = None) -> None:
    """Time an embedding variable's lookup beside a dense table's and beside TensorFlow's hash tables; report its memory.

    - `ctrlab bench embedding --profile full`
    - `ctrlab bench embedding --json embedding.json`
    """
    from ctrlab.commands import import_tensorflow

    import_tensorflow()
    from ctrlab.commands import bench

    bench.embedding(profile, json_path)


@bench.command("store")
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


@app.command()
def tune(
    model: Annotated[str, typer.Argument(help="wdl, deepfm, dlrm, din, dien or mmoe.")],
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


@app.command()
def lab(
    port: Annotated[int, typer.Option(help="On loopback.")] = 8888,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
    progress: Annotated[bool, typer.Option("--progress", help="Only show which lessons are done, and how.")] = False,
) -> None:
    """Open the workbook in JupyterLab, on copies of the lessons that nothing overwrites once you touched them.

    - `ctrlab lab --port 8890 --no-browser`
    """
    from ctrlab.lessons import index, lab

    if progress:
        index.show_progress()
    else:
        raise typer.Exit(lab.open_lab(port, browser))


def main() -> None:
    """The entry point of the `ctrlab` command."""
    app()


if __name__ == "__main__":
    main()

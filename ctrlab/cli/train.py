"""`ctrlab train`: data, model, a live progress, and the AUC against its ceiling."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ctrlab.cli.app import (
    DeviceOption,
    FormatOption,
    ModelArgument,
    OptimizationsOption,
    ProfileOption,
    SourceOption,
    console,
    import_tensorflow,
)
from ctrlab.cli.train_follow import SMOOTHING, Idle, first_examples, follow_files
from ctrlab.cli.train_options import checked
from ctrlab.distributed.place import CONFIG, Place, given_place
from ctrlab.errors import BadData, CtrlabError
from ctrlab.paths import require_place

if TYPE_CHECKING:
    from ctrlab.embedding import EmbeddingVariable
    from ctrlab.models.base import CTRModel
    from ctrlab.serving.publishing import Publisher
    from ctrlab.training import Evaluation, Run


def command(
    model: ModelArgument,
    optimizations: OptimizationsOption = "none",
    device: DeviceOption = "auto",
    epochs: Annotated[int, typer.Option(min=1, max=1_000_000, help="Passes over the training rows.")] = 1,
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
    size: Annotated[
        Literal["contest", "small", "few_rows"],
        typer.Option(help="The model's numbers: the contest's, or those for small data, or for some thousand rows."),
    ] = "contest",
    dim: Annotated[int | None, typer.Option(help="In place of the size's: the dimension of embeddings.")] = None,
    units: Annotated[list[str] | None, typer.Option(help="Layers of a part, deep=128,64; can be given for each part.")] = None,
    dropout: Annotated[float | None, typer.Option(help="Share of a hidden layer's outputs that are 0 in a step.")] = None,
    l2: Annotated[float | None, typer.Option(help="Factor of the squared weights in the loss.")] = None,
    batch_norm: Annotated[bool | None, typer.Option("--batch-norm/--no-batch-norm", help="Normalize hidden layers.")] = None,
    optimizer: Annotated[str | None, typer.Option(help="sgd, adagrad, ftrl or adam_async.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of the optimizer.")] = None,
    clip_norm: Annotated[float | None, typer.Option(help="Most of a gradient's norm, by variable; 0: no clipping.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Examples of a step.")] = None,
    validation: Annotated[
        str, typer.Option(help="Hold out so many of the last training rows, 10%, and end when they no longer gain.")
    ] = "",
    patience: Annotated[int, typer.Option(min=1, help="With --validation: epochs in a row without a gain.")] = 2,
    publish: Annotated[
        Path | None, typer.Option(help="Publish for servers in this model's folder, while it trains.", file_okay=False)
    ] = None,
    share_users: Annotated[
        bool, typer.Option("--share-users", help="Published: requests may hold a user once for all candidates.")
    ] = False,
    publish_every: Annotated[str, typer.Option(help="How often: 1s, 60s, 5m. Most are updates of what changed.")] = "60s",
    publish_full_every: Annotated[int, typer.Option(min=1, help="Every so many publications: the whole model.")] = 60,
    follow: Annotated[
        Path | None, typer.Option(help="Train on the Parquet files that appear in this folder, until SIGTERM.", file_okay=False)
    ] = None,
    idle: Annotated[str, typer.Option(help="With --follow: end when no file came for so long.")] = "",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Train in so many processes of this machine; in a cluster, TF_CONFIG says it.")
    ] = None,
) -> None:
    """Train one model and hold its AUC against the best that is possible on its data.

    - `ctrlab train deepfm --optimizations all --save deepfm.keras`
    - `ctrlab train wdl --optimizations all --checkpoint run --every 1000 --resume`
    - `ctrlab train din --data real --epochs 2`
    - `ctrlab train deepfm --data real --size small --dropout 0.2 --units deep=128,64 --epochs 20 --validation 10%`
    - `ctrlab train dlrm --embedding variable --admission 2 --checkpoint run --every 1000 --full-every 24`
    - `ctrlab train deepfm --optimizations all --epochs 20 --publish models/ctr --publish-every 60s`
    - `ctrlab train dlrm --optimizations all --workers 4`
    - `ctrlab train deepfm --optimizations all --follow joined --checkpoint run --every 1000 --resume --publish models/ctr`
    """
    given = dict(locals())
    if workers and not os.environ.get(CONFIG):
        _train_locally(workers)
        return
    place = given_place()
    asked = checked(given, len(place.addresses) if place else 1)
    if save:
        require_place(save)
    import_tensorflow(gpu=True)
    from ctrlab.distributed.cluster import join
    from ctrlab.embedding import embedding_variables
    from ctrlab.models.saving import save_model
    from ctrlab.race.contest import data_set
    from ctrlab.training import Run, Saving, Spec

    spec = Spec(
        model=model,
        optimizations=optimizations,
        data_set=data_set(model, data) if data == "real" else None,
        source=data,
        format=format,
        profile=profile,
        embedding=asked.embedding,
        size=asked.size,
        device=_use(device, model, optimizations, embedding, place),
        seed=seed,
        epochs=epochs,
        saving=Saving(checkpoint, every, full_every or 1, resume) if checkpoint else None,
        follow=follow,
        validation=asked.validation,
        patience=patience,
    )
    together = join()
    shared = not together.shard.whole
    out = console() if together.first else Console(quiet=True)
    with Run(spec, together) as training, contextlib.ExitStack() as last:
        if training.rungs["run"]:
            out.print(f"Threads and buffers: {training.choice.source}.", soft_wrap=True)
        if not follow and (rejected := training.files.rejected):
            said = f"{rejected:,} raw rows are left out, each with its reason in {training.files.rejects}."
            out.print(said, style="yellow", markup=False, soft_wrap=True)
        if not follow:
            require_batch(training)
        if spec.saving:
            tell_resumed(training, out)
        publisher, unpublished = None, []
        together.agree({"--publish": str(publish or "none")})
        if publish:
            from ctrlab.data import prepare
            from ctrlab.serving.publishing import Publisher
            from ctrlab.serving.shared_publishing import SharedPublisher
            from ctrlab.serving.warm_up import EXAMPLES, rows_of

            if follow:
                examples = first_examples(training, out, Idle(training.followed, asked.idle))
                if examples is None:
                    out.print(f"No file with rows came to {follow} within {idle}; nothing was published.", soft_wrap=True)
                    return
                rows = rows_of(examples)
            else:  # of text, as requests are; rungs may have the training read ids
                rows = rows_of(prepare(training.model.schema.name, profile=profile, source=data).read_test(EXAMPLES))
            options = {"every": asked.seconds, "full_every": publish_full_every, "run": spec.in_words, "share_users": share_users}
            new = functools.partial(SharedPublisher, together) if shared else Publisher
            publisher = new(publish, training.model, training.optimizer, rows=rows, **options)
            unpublished = last.enter_context(publishing(publisher))
        if follow:
            follow_files(training, out, publisher, asked.idle)
        else:
            fit(training, out, publisher)
            found = training.evaluate()
            if training.stopping:
                out.print(judged(training), soft_wrap=True)
    if publisher:
        out.print(told(publisher), soft_wrap=True)
    if not follow:
        out.print(table_of(found, training.files.ceiling, f"{spec.model} on {training.files.name}"))
    if embedding != "hashed":
        out.print(kinds_of(training.model), markup=False, soft_wrap=True)
    if variables := embedding_variables(training.model):
        here = " on worker 0" if shared else ""
        out.print(size_of(variables, here), soft_wrap=True)
    if save:
        save_model(training.model, save)
        out.print(f"Model: {save}", soft_wrap=True)
    if unpublished:
        raise unpublished[0]


def _use(device: str, model: str, optimizations: str, embedding: str, place: Place | None) -> str:
    """The device of this process; several workers train on the CPU."""
    from ctrlab import devices
    from ctrlab.optimizations import of_level

    if device == "auto" and place and len(place.addresses) > 1:
        device = "cpu"
    return devices.use(device, devices.staying(model, of_level(optimizations, "model"), embedding == "variable"))


def _train_locally(workers: int) -> None:
    """Runs this command in several processes, and ends with their exit code."""
    from ctrlab.distributed.launch import local

    command = [sys.executable, "-m", "ctrlab", *sys.argv[1:]]
    if code := local(workers, command):
        raise typer.Exit(code)


def tell_resumed(training: Run, out: Console) -> None:
    """Prints the save from which the run continues, and the saves that were passed over."""
    restored, folder = training.checkpoints.restored, training.spec.saving.folder
    if restored:
        for problem in restored.passed_over:
            out.print(f"Passed over: {problem}", style="yellow", markup=False, soft_wrap=True)
        if restored.lost:
            out.print(restored.lost, style="yellow", markup=False, soft_wrap=True)
        out.print(f"Resumed after {training.checkpoints.position} batches, from {restored.path}.", soft_wrap=True)
    elif training.spec.saving.resume:
        out.print(f"Nothing to resume: {folder} has no checkpoint yet, so the training begins anew.", soft_wrap=True)


def require_batch(training: Run) -> None:
    """Refuses a data set with fewer rows than a batch: over all epochs, or with validation, which follows each epoch, over
    one.
    """
    if training.files.rows * (1 if training.stopping else training.spec.epochs) < training.batch_size:
        raise BadData(
            f"Training needs at least one batch of {training.batch_size:,} rows; {training.files.name} has "
            f"{training.files.rows:,} rows to train on: give a smaller --batch-size, or more rows."
        )


def fit(training: Run, out: Console, publisher: Publisher | None = None) -> None:
    """Trains on every row, with a progress bar that shows the loss."""
    start, total = training.position, training.batch_count
    if start >= total:
        out.print(f"Nothing is left to train: all {total} batches were trained on before.")
        return
    columns = ("[progress.description]{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[loss]}"), console=out) as progress:
        task = progress.add_task(f"Training {training.spec.model}", total=total, completed=start, loss="")
        smooth = None

        def show(number: int, loss: float) -> None:
            nonlocal smooth
            smooth = loss if smooth is None else SMOOTHING * smooth + (1 - SMOOTHING) * loss
            progress.update(task, advance=1, loss=f"loss {smooth:.4f}")

        training.train(on_step=[show, publisher] if publisher else show)


def judged(training: Run) -> str:
    """A line on the quality of each epoch on the validation rows."""
    stopping = training.stopping
    found = [sum(each.auc.values()) / len(each.auc) for each in stopping.evaluations]
    if not found:
        return "No epoch was left to judge."
    aucs = ", ".join(f"{auc:.4f}" for auc in found)
    return f"AUC on the validation rows after each epoch: {aucs}; the weights are those after epoch {stopping.best + 1}."


@contextlib.contextmanager
def publishing(publisher: Publisher) -> Iterator[list[CtrlabError]]:
    """A context that publishes. The error of the last publication is put into the list instead of raised, so that the trained
    model is not lost.
    """
    failed: list[CtrlabError] = []
    with contextlib.ExitStack() as last:
        last.push(publisher)
        yield failed
        last.pop_all()
    try:
        publisher.close()
    except CtrlabError as problem:
        failed.append(problem)


def told(publisher: Publisher) -> str:
    """A line on what was published."""
    found = publisher.published
    updates = f"{found.updates} updates of {found.rows:,} rows"
    if found.updates:
        each, whole, times = found.bytes / found.updates / 1e6, found.version_bytes / 1e6, 60 / publisher.every
        updates += f", {each:,.2f} MB each where the whole is {whole:,.1f} MB: {times * each:,.1f} MB a minute"
    return f"Published in {publisher.folder}: {found.versions} full versions and {updates}."


def table_of(found: Evaluation, ceiling: dict[str, float] | None, title: str) -> Table:
    """A table of AUC and log loss per label. The ceiling is the AUC of the model that drew the labels, if a model did."""
    table = Table("label", "AUC", "ceiling", "log loss", title=title, caption=f"{found.rows:,} held-out rows")
    for label, auc in found.auc.items():
        best = f"{ceiling[label]:.4f}" if ceiling else "unknown"
        table.add_row(label, f"{auc:.4f}", best, f"{found.log_loss[label]:.4f}")
    return table


def kinds_of(model: CTRModel) -> str:
    """A line on the tables with the chosen embedding, and the reasons why others don't have it."""
    from ctrlab.embedding.choices import reasons

    found = reasons(model.choices, model.schema)
    left = [f"{table} ({why.removeprefix('Hashed: ')})" for table, why in found.items() if why.startswith("Hashed")]
    chosen = [table for table, why in found.items() if not why.startswith("Hashed")]
    return f"Embeddings: {', '.join(chosen) or 'none'} as chosen; hashed: {', '.join(left) or 'none'}."


def size_of(variables: Sequence[EmbeddingVariable], here: str) -> str:
    """A line on the total content of all embedding variables."""
    stats = [variable.stats() for variable in variables]
    rows, below, waiting, size = (sum(getattr(s, n) for s in stats) for n in ("rows", "rows_below", "candidates", "bytes"))
    parts = [f"{rows:,} rows in {len(stats)} tables", f"{below:,} of them on the disk" if below else ""]
    parts += [f"{waiting:,} ids counted without a row" if waiting else "", f"{size / 1e6:,.1f} MB of memory"]
    return f"Embedding variables{here}: {', '.join(filter(None, parts))}."

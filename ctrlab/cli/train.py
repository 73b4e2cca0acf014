"""`ctrlab train`: data, model, a live progress, and the AUC against its ceiling."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ctrlab.cli.app import (
    FormatOption,
    ModelArgument,
    OptimizationsOption,
    ProfileOption,
    SourceOption,
    console,
    duration,
    import_tensorflow,
)
from ctrlab.errors import CtrlabError
from ctrlab.paths import require_place

if TYPE_CHECKING:
    import tensorflow as tf

    from ctrlab.data.follow import Followed
    from ctrlab.embedding import EmbeddingVariable
    from ctrlab.models.base import CTRModel
    from ctrlab.serving.publishing import Publisher
    from ctrlab.training import Evaluation, Run

SMOOTHING = 0.95


def command(
    model: ModelArgument,
    optimizations: OptimizationsOption = "none",
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
    publish: Annotated[
        Path | None, typer.Option(help="Publish for servers in this model's folder, while it trains.", file_okay=False)
    ] = None,
    publish_every: Annotated[str, typer.Option(help="How often: 1s, 60s, 5m. Most are updates of what changed.")] = "60s",
    publish_full_every: Annotated[int, typer.Option(min=1, help="Every so many publications: the whole model.")] = 60,
    follow: Annotated[
        Path | None, typer.Option(help="Train on the Parquet files that appear in this folder, until SIGTERM.", file_okay=False)
    ] = None,
    idle: Annotated[str, typer.Option(help="With --follow: end when no file came for so long.")] = "",
) -> None:
    """Train one model and hold its AUC against the best that is possible on its data.

    - `ctrlab train deepfm --optimizations all --save deepfm.keras`
    - `ctrlab train wdl --optimizations all --checkpoint run --every 1000 --resume`
    - `ctrlab train din --data real --epochs 2`
    - `ctrlab train dlrm --embedding variable --admission 2 --checkpoint run --every 1000 --full-every 24`
    - `ctrlab train deepfm --optimizations all --epochs 20 --publish models/ctr --publish-every 60s`
    - `ctrlab train deepfm --optimizations all --follow joined --checkpoint run --every 1000 --resume --publish models/ctr`
    """
    if checkpoint is None and (every or full_every or resume):
        raise CtrlabError("--every, --full-every and --resume are about checkpoints; give their folder with --checkpoint.")
    if full_every and embedding != "variable":
        raise CtrlabError(
            "--full-every spares the rows that did not change, which only variables know; add --embedding variable."
        )
    if evict_after and checkpoint is None:
        raise CtrlabError("--evict-after lets rows go at each save; give a folder for checkpoints with --checkpoint.")
    if save:
        if save.suffix != ".keras":
            raise CtrlabError(f"A model is saved as a .keras file; got {save}.")
        require_place(save)
    seconds = duration("--publish-every", publish_every)
    if follow and (epochs != 1 or data != "generated"):
        raise CtrlabError(
            "--follow trains on each row of its folder once, in place of a data set; leave out --epochs and --data."
        )
    if idle and not follow:
        raise CtrlabError("--idle says when a run that follows a folder ends; name the folder with --follow.")
    most_idle = duration("--idle", idle) if idle else float("inf")
    choice = choice_of(embedding, admission, evict_after, storage, memory_rows)
    import_tensorflow()
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
        embedding=choice,
        seed=seed,
        epochs=epochs,
        saving=Saving(checkpoint, every, full_every or 1, resume) if checkpoint else None,
        follow=follow,
    )
    out = console()
    with Run(spec) as training, contextlib.ExitStack() as last:
        if training.rungs["run"]:
            out.print(f"Threads and buffers: {training.choice.source}.", soft_wrap=True)
        if not follow and (rejected := training.files.rejected):
            said = f"{rejected:,} raw rows are left out, each with its reason in {training.files.rejects}."
            out.print(said, style="yellow", markup=False, soft_wrap=True)
        if spec.saving:
            tell_resumed(training, out)
        publisher = None
        if publish:
            from ctrlab.data import prepare
            from ctrlab.serving.publishing import Publisher
            from ctrlab.serving.warm_up import EXAMPLES, rows_of

            if follow:
                examples = first_examples(training, out, Idle(training.followed, most_idle))
                if examples is None:
                    out.print(f"No file with rows came to {follow} within {idle}; nothing was published.", soft_wrap=True)
                    return
                rows = rows_of(examples)
            else:  # of text, as requests are; rungs may have the training read ids
                rows = rows_of(prepare(training.model.schema.name, profile=profile, source=data).read_test(EXAMPLES))
            options = {"every": seconds, "full_every": publish_full_every, "run": spec.in_words, "rows": rows}
            publisher = last.enter_context(Publisher(publish, training.model, training.optimizer, **options))
        if follow:
            follow_files(training, out, publisher, most_idle)
        else:
            fit(training, out, publisher)
            found = training.evaluate()
    if publisher:
        out.print(told(publisher), soft_wrap=True)
    if not follow:
        out.print(table_of(found, training.files.ceiling, f"{spec.model} on {training.files.name}"))
    if embedding != "hashed":
        out.print(kinds_of(training.model), markup=False, soft_wrap=True)
    if variables := embedding_variables(training.model):
        out.print(size_of(variables), soft_wrap=True)
    if save:
        save_model(training.model, save)
        out.print(f"Model: {save}", soft_wrap=True)


def choice_of(embedding: str, admission: int | None, evict_after: int | None, storage: Path | None, memory_rows: int | None):
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


def tell_resumed(training: Run, out: Console) -> None:
    """Says what the run goes on from, and what was passed over."""
    restored, folder = training.checkpoints.restored, training.spec.saving.folder
    if restored:
        for problem in restored.passed_over:
            out.print(f"Passed over: {problem}", style="yellow", markup=False, soft_wrap=True)
        if restored.lost:
            out.print(restored.lost, style="yellow", markup=False, soft_wrap=True)
        out.print(f"Resumed after {training.checkpoints.position} batches, from {restored.path}.", soft_wrap=True)
    elif training.spec.saving.resume:
        out.print(f"Nothing to resume: {folder} has no checkpoint yet, so the training begins anew.", soft_wrap=True)


def fit(training: Run, out: Console, publisher: Publisher | None = None) -> None:
    """Trains on every row, with a bar that carries the loss."""
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


class Idle:
    """Whether no rows have come for so many seconds. Asked while training waits for some: a step or a save may take longer."""

    def __init__(self, followed: Followed, seconds: float):
        self._followed, self._seconds = followed, seconds
        self._place, self._since = None, 0.0

    def __call__(self) -> bool:
        place = self._followed.used, self._followed.known
        if place != self._place:
            self._place, self._since = place, time.monotonic()
        return time.monotonic() - self._since > self._seconds


def first_examples(training: Run, out: Console, idle: Idle) -> tf.data.Dataset | None:
    """Batches of the followed folder's first file; waits for it, and gives None if none has come for too long."""
    from ctrlab.serving.warm_up import EXAMPLES

    with out.status(f"Waiting for the first file in {training.followed.folder}", spinner="dots"):
        training.followed.look()
        while (batches := training.followed.examples(EXAMPLES)) is None:
            if idle():
                return None
            time.sleep(0.2)
            training.followed.look()
    return batches


def follow_files(training: Run, out: Console, publisher: Publisher | None, most_idle: float) -> None:
    """Trains on files as they come, until SIGTERM or SIGINT, or until none has come for so many seconds."""
    stops = threading.Event()
    before = {number: signal.signal(number, lambda *_: stops.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    columns = ("[progress.description]{task.description}", MofNCompleteColumn(), TextColumn("rows{task.fields[loss]}"))
    try:
        with Progress(*columns, console=out) as progress:
            task = progress.add_task(f"Training {training.spec.model}", total=None, loss="")
            smooth = None

            def show(number: int, loss: float) -> None:
                nonlocal smooth
                smooth = loss if smooth is None else SMOOTHING * smooth + (1 - SMOOTHING) * loss
                followed = training.followed
                progress.update(task, completed=followed.used, total=followed.known, loss=f", loss on new rows {smooth:.4f}")

            hooks = [show, publisher] if publisher else [show]
            waits = {"on_wait": publisher.on_wait} if publisher else {}
            training.follow(hooks, ends=stops.is_set, idle=Idle(training.followed, most_idle), **waits)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    left = training.followed.known - training.followed.used
    rest = f"; {left:,} rows {'wait for a whole batch' if left < training.batch_size else 'are left'}" if left else ""
    said = f", loss on new rows {smooth:.4f}" if smooth is not None else ""
    out.print(f"Trained on {training.followed.used:,} rows of {training.followed.folder}{said}{rest}.", soft_wrap=True)


def told(publisher: Publisher) -> str:
    """A line on what was published."""
    found = publisher.published
    updates = f"{found.updates} updates of {found.rows:,} rows"
    if found.updates:
        each, whole, times = found.bytes / found.updates / 1e6, found.version_bytes / 1e6, 60 / publisher.every
        updates += f", {each:,.2f} MB each where the whole is {whole:,.1f} MB: {times * each:,.1f} MB a minute"
    return f"Published in {publisher.folder}: {found.versions} full versions and {updates}."


def table_of(found: Evaluation, ceiling: dict[str, float] | None, title: str) -> Table:
    """AUC and log loss a label; the ceiling is the AUC of the model that drew the labels, where one did."""
    table = Table("label", "AUC", "ceiling", "log loss", title=title, caption=f"{found.rows:,} held-out rows")
    for label, auc in found.auc.items():
        best = f"{ceiling[label]:.4f}" if ceiling else "unknown"
        table.add_row(label, f"{auc:.4f}", best, f"{found.log_loss[label]:.4f}")
    return table


def kinds_of(model: CTRModel) -> str:
    """A line on which tables have the chosen embedding, and why others have not."""
    from ctrlab.embedding.choices import reasons

    found = reasons(model.choices, model.schema)
    left = [f"{table} ({why.removeprefix('Hashed: ')})" for table, why in found.items() if why.startswith("Hashed")]
    chosen = [table for table, why in found.items() if not why.startswith("Hashed")]
    return f"Embeddings: {', '.join(chosen) or 'none'} as chosen; hashed: {', '.join(left) or 'none'}."


def size_of(variables: Sequence[EmbeddingVariable]) -> str:
    """A line on what embedding variables hold together."""
    stats = [variable.stats() for variable in variables]
    rows, below, waiting, size = (sum(getattr(s, n) for s in stats) for n in ("rows", "rows_below", "candidates", "bytes"))
    parts = [f"{rows:,} rows in {len(stats)} tables", f"{below:,} of them on the disk" if below else ""]
    parts += [f"{waiting:,} ids counted without a row" if waiting else "", f"{size / 1e6:,.1f} MB of memory"]
    return f"Embedding variables: {', '.join(filter(None, parts))}."

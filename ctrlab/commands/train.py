"""`ctrlab train`: data, model, a live progress, and the AUC against its ceiling."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ctrlab import data, profiles
from ctrlab import optimizations as ladder
from ctrlab.embedding import EmbeddingVariable, embedding_variables, prefetched
from ctrlab.embedding.choices import Choice, Variable
from ctrlab.errors import CtrlabError, choose
from ctrlab.models import MODELS, build
from ctrlab.paths import require_place
from ctrlab.race import contest
from ctrlab.training import SHUFFLE_ROWS, Checkpoints, Evaluation, batch_size, evaluate, make_optimizer, train
from ctrlab.training.stage import stage
from ctrlab.training.threads import Setting, apply_threads, choose_setting

SMOOTHING = 0.95


@dataclass(frozen=True)
class Saving:
    """Where checkpoints go; every how many steps, None for the last alone; every how many saves all of the embedding tables is
    written; whether to go on from the last."""

    folder: Path
    every: int | None
    full_every: int
    resume: bool


def run(
    model: str,
    optimizations: str,
    epochs: int,
    source: str,
    format: str,
    profile: str | None,
    seed: int,
    save: Path | None,
    saving: Saving | None,
    embedding: Choice,
) -> None:
    """Trains, prints the table, saves.

    Raises:
        UnknownName, CtrlabError: bad options or data.
    """
    choose("model", model, MODELS)
    if save:
        if save.suffix != ".keras":
            raise CtrlabError(f"A model is saved as a .keras file; got {save}.")
        require_place(save)
    console = Console()
    rungs = {level: ladder.of_level(optimizations, level) for level in ladder.LEVELS}
    choice = choose_setting(model, rungs["run"])
    apply_threads(choice.setting)  # before TensorFlow runs anything
    if rungs["run"]:
        console.print(f"Threads and buffers: {choice.source}.", soft_wrap=True)
    name = contest.data_set(model, source)
    # With no schema a model takes its own data set, at the contest's table sizes.
    built = build(model, None if source == "generated" else name, rungs["model"], seed, embedding)
    size = profiles.current(profile)
    files = data.prepare_for(built.input_schema, rungs["input"], profile=size, source=source, format=format)
    rows = batch_size(built, rungs["input"])
    facts = {"model": model, "data": f"{source} {name}, {files.rows} rows", "batch size": str(rows), "seed": str(seed)}
    facts["embedding"] = in_words(embedding)
    optimizer = make_optimizer(built)
    with data.explained(), checkpoints_of(saving, built, optimizer, "async_checkpoint" in rungs["run"], facts, console) as saver:
        fit(built, optimizer, files, rows, epochs, seed, choice.setting, saver, console)
        # WDL scales its deep input by the norm of the batch: what it was trained on is what it must be judged on.
        found = evaluate(built, files.read_test(rows))
    console.print(table_of(found, files.ceiling, f"{model} on {name}"))
    if variables := embedding_variables(built):
        console.print(size_of(variables), soft_wrap=True)
    if save:
        save_model(built, save)
        console.print(f"Model: {save}")


def in_words(embedding: Choice) -> str:
    """What of a choice must stay the same when a run is taken up again: not where its rows are stored."""
    rules = (embedding.options.admission, embedding.options.eviction) if isinstance(embedding, Variable) else ()
    return ", ".join([type(embedding).__name__, *(str(rule) for rule in rules if rule)])


def checkpoints_of(saving: Saving | None, model, optimizer, asynchronous: bool, facts: dict[str, str], console: Console):
    """The saver of the run, or a context of None; says what was resumed, and what was passed over."""
    if not saving:
        return contextlib.nullcontext()
    when = {"every": saving.every, "full_every": saving.full_every}
    saver = Checkpoints(saving.folder, model, optimizer, **when, asynchronous=asynchronous, resume=saving.resume, run=facts)
    if saver.restored:
        for problem in saver.restored.passed_over:
            console.print(f"Passed over: {problem}", style="yellow", markup=False, soft_wrap=True)
        if saver.restored.lost:
            console.print(saver.restored.lost, style="yellow", markup=False, soft_wrap=True)
        console.print(f"Resumed after {saver.position} batches, from {saver.restored.path}.", soft_wrap=True)
    elif saving.resume:
        console.print(f"Nothing to resume: {saving.folder} has no checkpoint yet, so the training begins anew.", soft_wrap=True)
    return saver


def fit(
    model, optimizer, files, size: int, epochs: int, seed: int, setting: Setting, saver: Checkpoints | None, console: Console
) -> None:
    """Trains on every row `epochs` times, with a bar that carries the loss."""
    total, start = epochs * files.rows // size, saver.position if saver else 0
    if start >= total:
        console.print(f"Nothing is left to train: all {total} batches were trained on before.")
        return
    columns = ("[progress.description]{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[loss]}"), console=console) as progress:
        task = progress.add_task(f"Training {model.name}", total=total, completed=start, loss="")
        smooth = None

        def on_step(number: int, loss: float) -> None:
            nonlocal smooth
            smooth = loss if smooth is None else SMOOTHING * smooth + (1 - SMOOTHING) * loss
            progress.update(task, advance=1, loss=f"loss {smooth:.4f}")
            if saver:
                saver(number, loss)

        options = {"epochs": epochs, "drop_remainder": True, "start": start, "prefetch": setting.prefetch}
        batches = files.read_train(size, shuffle=SHUFFLE_ROWS, seed=seed, **options)
        with with_rows(model, batches, setting.stage) as ready:
            train(model, optimizer, ready, on_step=on_step)
        if saver:
            saver.save_last()


def with_rows(model, batches, depth: int) -> contextlib.AbstractContextManager:
    """The staged batches; where rows may lie on a disk, each comes when its rows are in memory."""
    if not any(variable.options.storage for variable in embedding_variables(model)):
        return contextlib.nullcontext(stage(batches, model, depth))
    # Staged in any case: the keys are known before the step then, and made once.
    staged = stage(batches, model, max(1, depth))
    return contextlib.closing(prefetched(staged, lambda batch: model.reads(batch[0])))


def table_of(found: Evaluation, ceiling: dict[str, float] | None, title: str) -> Table:
    """AUC and log loss a label; the ceiling is the AUC of the model that drew the labels, where one did."""
    table = Table("label", "AUC", "ceiling", "log loss", title=title, caption=f"{found.rows:,} held-out rows")
    for label, auc in found.auc.items():
        best = f"{ceiling[label]:.4f}" if ceiling else "unknown"
        table.add_row(label, f"{auc:.4f}", best, f"{found.log_loss[label]:.4f}")
    return table


def size_of(variables: Sequence[EmbeddingVariable]) -> str:
    """A line on what embedding variables hold together."""
    stats = [variable.stats() for variable in variables]
    rows, below, waiting, size = (sum(getattr(s, n) for s in stats) for n in ("rows", "rows_below", "candidates", "bytes"))
    parts = [f"{rows:,} rows in {len(stats)} tables", f"{below:,} of them on the disk" if below else ""]
    parts += [f"{waiting:,} ids counted without a row" if waiting else "", f"{size / 1e6:,.1f} MB of memory"]
    return f"Embedding variables: {', '.join(filter(None, parts))}."


def save_model(model, path: Path) -> None:
    """Writes the whole file or none of it."""
    part = path.with_name(f".{path.stem}.{os.getpid()}.keras")
    try:
        model.save(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)

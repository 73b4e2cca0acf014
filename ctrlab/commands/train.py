"""`ctrlab train`: data, model, a live progress, and the AUC against its ceiling."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ctrlab.embedding import EmbeddingVariable, embedding_variables
from ctrlab.errors import CtrlabError
from ctrlab.paths import replacing, require_place
from ctrlab.training import Evaluation, Run, Spec

SMOOTHING = 0.95


def run(spec: Spec, save: Path | None) -> None:
    """Trains, prints the table, saves the model.

    Raises:
        UnknownName, CtrlabError: bad options or data.
    """
    if save:
        if save.suffix != ".keras":
            raise CtrlabError(f"A model is saved as a .keras file; got {save}.")
        require_place(save)
    console = Console()
    with Run(spec) as training:
        if training.rungs["run"]:
            console.print(f"Threads and buffers: {training.choice.source}.", soft_wrap=True)
        if spec.saving:
            tell_resumed(training, console)
        fit(training, console)
        found = training.evaluate()
    console.print(table_of(found, training.files.ceiling, f"{spec.model} on {training.files.name}"))
    if variables := embedding_variables(training.model):
        console.print(size_of(variables), soft_wrap=True)
    if save:
        save_model(training.model, save)
        console.print(f"Model: {save}")


def tell_resumed(training: Run, console: Console) -> None:
    """Says what the run goes on from, and what was passed over."""
    restored, folder = training.checkpoints.restored, training.spec.saving.folder
    if restored:
        for problem in restored.passed_over:
            console.print(f"Passed over: {problem}", style="yellow", markup=False, soft_wrap=True)
        if restored.lost:
            console.print(restored.lost, style="yellow", markup=False, soft_wrap=True)
        console.print(f"Resumed after {training.checkpoints.position} batches, from {restored.path}.", soft_wrap=True)
    elif training.spec.saving.resume:
        console.print(f"Nothing to resume: {folder} has no checkpoint yet, so the training begins anew.", soft_wrap=True)


def fit(training: Run, console: Console) -> None:
    """Trains on every row, with a bar that carries the loss."""
    start, total = training.position, training.batch_count
    if start >= total:
        console.print(f"Nothing is left to train: all {total} batches were trained on before.")
        return
    columns = ("[progress.description]{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[loss]}"), console=console) as progress:
        task = progress.add_task(f"Training {training.spec.model}", total=total, completed=start, loss="")
        smooth = None

        def show(number: int, loss: float) -> None:
            nonlocal smooth
            smooth = loss if smooth is None else SMOOTHING * smooth + (1 - SMOOTHING) * loss
            progress.update(task, advance=1, loss=f"loss {smooth:.4f}")

        training.train(on_step=show)


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
    with replacing(path, ".keras") as part:  # Keras writes what the name says
        model.save(part)

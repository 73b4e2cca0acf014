"""`ctrlab tune`: the search with its progress, the surface as tables, and where the answer is kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ctrlab.cli.app import ModelArgument, ProfileOption, console, import_tensorflow, require_files
from ctrlab.paths import write_atomically

if TYPE_CHECKING:
    from ctrlab.training.tune import Tuning


def command(
    model: ModelArgument,
    budget: Annotated[float, typer.Option(min=1, help="Seconds that the search may take.")] = 120.0,
    optimizations: Annotated[str, typer.Option(help="The set that the model will be trained with.")] = "all",
    profile: ProfileOption = None,
    html: Annotated[Path | None, typer.Option(help="Write the heat maps to this file.", dir_okay=False)] = None,
) -> None:
    """Find the threads and buffers that train a model fastest on this machine, and keep them for the rung "threads".

    - `ctrlab tune dlrm --budget 300`
    """
    require_files(html=html)
    import_tensorflow()
    from ctrlab.training import tune_page
    from ctrlab.training.tune import AXES, tune

    out = console()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out) as progress:
        task = progress.add_task(f"Tuning {model}", total=1.0)
        found = tune(
            model,
            optimizations,
            budget=budget,
            profile=profile,
            watch=lambda what, share: progress.update(task, description=f"Tuning {model}: {what}", completed=share),
        )
        progress.update(task, description=f"Tuned {model}", completed=1.0)
    for part in AXES:
        out.print(table_of(found, part))
    best = found.best
    kept = "TensorFlow's own is not beaten for sure" if found.is_own else "Chosen"
    chosen = f"{best.intra} x {best.inter} threads, prefetch {best.prefetch}, stage {best.stage}"
    out.print(f"{kept}: {chosen}. Kept for the rung threads.", soft_wrap=True)
    if html:
        write_atomically(html, tune_page.page(found))
        out.print(f"Heat maps: {html}", soft_wrap=True)


def table_of(found: Tuning, part: str) -> Table:
    """A table of medians over two settings, with their intervals; "-" if there was no time to measure."""
    from ctrlab.training.tune import AXES

    surface, (across, down) = found.surface(part), AXES[part]
    columns, rows = (sorted({cell[axis] for cell in surface}) for axis in (0, 1))
    title = f"{part.capitalize()}: {across} across, {down} down, times as fast as TensorFlow's own"
    table = Table("", *(str(c) for c in columns), title=title, caption=found.device)
    for r in rows:
        cells = [f"{i.median:.2f} [{i.low:.2f}, {i.high:.2f}]" if (i := surface.get((c, r))) else "-" for c in columns]
        table.add_row(str(r), *cells)
    return table

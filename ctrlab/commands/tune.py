"""`ctrlab tune`: the search with its progress, the surface as tables, and where the answer is kept."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ctrlab.errors import choose
from ctrlab.models import MODELS
from ctrlab.paths import write_atomically
from ctrlab.profiling import page
from ctrlab.training.tune import AXES, Tuning, tune


def run(model: str, optimizations: str, budget: float, profile: str | None, html: Path | None) -> None:
    """Searches, prints, keeps.

    Raises:
        UnknownName, CtrlabError: bad options, or a model that can't be trained.
    """
    choose("model", model, MODELS)
    if html:
        page.check(html)
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
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
        console.print(table_of(found, part))
    best = found.best
    kept = "TensorFlow's own is not beaten for sure" if found.is_own else "Chosen"
    chosen = f"{best.intra} x {best.inter} threads, prefetch {best.prefetch}, stage {best.stage}"
    console.print(f"{kept}: {chosen}. Kept for the rung threads.", soft_wrap=True)
    if html:
        write_atomically(html, page_of(found))
        console.print(f"Heat maps: {html}")


def table_of(found: Tuning, part: str) -> Table:
    """Medians over two settings, with their intervals; "-" where there was no time to measure."""
    surface, (across, down) = found.surface(part), AXES[part]
    columns, rows = (sorted({cell[axis] for cell in surface}) for axis in (0, 1))
    title = f"{part.capitalize()}: {across} across, {down} down, times as fast as TensorFlow's own"
    table = Table("", *(str(c) for c in columns), title=title, caption=found.device)
    for r in rows:
        cells = [f"{i.median:.2f} [{i.low:.2f}, {i.high:.2f}]" if (i := surface.get((c, r))) else "-" for c in columns]
        table.add_row(str(r), *cells)
    return table


def page_of(found: Tuning) -> str:
    """The heat maps as a page that needs nothing else to be read."""
    from ctrlab.profiling.charts import heat_map  # plotly, which training does not need

    figures = []
    for part, (across, down) in AXES.items():
        title = f"{found.model}: {across} and {down}"
        figures.append(heat_map(found.surface(part), x=across, y=down, title=title, best=found.chosen(part), device=found.device))
    return page.of_figures(figures, f"Tuning of {found.model}")

"""The result of a search for threads and buffers as an HTML page."""

from __future__ import annotations

from ctrlab.profiling.page import of_figures
from ctrlab.training.tune import AXES, Tuning


def page(found: Tuning) -> str:
    """The heat maps as a self-contained HTML page."""
    from ctrlab.profiling.charts import heat_map  # plotly, which training does not need

    figures = []
    for part, (across, down) in AXES.items():
        title = f"{found.model}: {across} and {down}"
        figures.append(heat_map(found.surface(part), x=across, y=down, title=title, best=found.chosen(part), device=found.device))
    return of_figures(figures, f"Tuning of {found.model}")

"""The race's table in the terminal: live during the race, complete at its end."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ctrlab.profiling.timing import Interval
from ctrlab.race import contest, score
from ctrlab.race.result import ModelRace, RaceResult, Variant


class LiveTable:
    """A context manager; `watch` and `on_model` are what `runner.race` calls."""

    def __init__(self, console: Console, models: tuple[str, ...], sets: tuple[str, ...]):
        self.sets, self.entries = sets, {}
        self.going = {(m, s): ("waiting", 0.0, 0.0) for m in models for s in sets}
        self.left: float | None = None
        self.live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> LiveTable:
        self.live.__enter__()
        return self

    def __exit__(self, *exception):
        self.live.__exit__(*exception)

    def watch(self, model: str, optimizations: str, doing: str, share: float, seconds: float, left: float | None) -> None:
        self.going[model, optimizations] = (doing, share, seconds)
        self.left = left
        self.refresh()

    def on_model(self, result: RaceResult) -> None:
        self.entries = {m.model: m for m in result.models}
        self.refresh()

    def refresh(self) -> None:
        table = new_table("Race" if self.left is None else f"Race, {time_text(self.left)} left")
        for (model, optimizations), (doing, share, seconds) in self.going.items():
            if entry := self.entries.get(model):
                add_variant(table, entry, entry.variant(optimizations))
            else:
                bar = ProgressBar(total=1.0, completed=share, width=16)
                so_far = f"{seconds:.1f} s" if seconds else ""
                table.add_row(model, optimizations, so_far, *[""] * len(MEASURES), bar if share else doing)
            if optimizations == self.sets[-1]:
                table.add_section()
        self.live.update(table, refresh=True)


MEASURES = ("speed-up", "% of\nbound", "gap\nclosed", "AUC", "GAUC", "calibra-\ntion")


def new_table(title: str) -> Table:
    """At most 100 columns wide. A model with several labels has one line per label in the last three measures."""
    caption = "seconds: training time at the contest's number of steps; gap: from the best of stock to the bound"
    table = Table(title=title, caption=caption, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("model", no_wrap=True)
    table.add_column("set", max_width=18, overflow="fold")
    for name in ("seconds", *MEASURES):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("counts", max_width=11)
    return table


def time_text(seconds: float) -> str:
    """
    >>> time_text(128), time_text(32)
    ('2 min', '32 s')
    """
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def add_variant(table: Table, entry: ModelRace, variant: Variant) -> None:
    """Adds a line for a variant: its results, or why it has none."""
    if variant.error:
        table.add_row(entry.model, variant.optimizations, "", *[""] * len(MEASURES), Text("no", "red"))
        return
    table.add_row(
        entry.model,
        variant.optimizations,
        f"{score.contest_seconds(entry, variant):.1f}",
        "" if variant.optimizations == contest.BASELINE else ratio_text(score.speedup(entry, variant.optimizations)),
        f"{score.percent_of_floor(entry, variant):.1f}",
        gap_text(score.gap_closed(entry, variant)),
        *(lines(each) for each in (variant.auc, variant.gauc, variant.calibration)),
        "yes" if score.verdict(entry, variant).passed else Text("no", "red"),
    )


def lines(measures: dict[str, float]) -> str:
    return "\n".join(f"{value:.4f}" for value in measures.values())


def ratio_text(ratio: Interval | None) -> str:
    return "" if ratio is None else f"{ratio.median:.2f}x [dim]\\[{ratio.low:.2f}, {ratio.high:.2f}][/dim]"


def gap_text(percent: float | None) -> str:
    return "" if percent is None else f"{percent:.0f} %"


def final_table(result: RaceResult) -> Table:
    """The whole result, with each set's total."""
    settings = result.settings
    table = new_table(f"Race at profile {settings.profile}, {settings.data} data")
    table.caption = f"{table.caption}; {score.interval_note(result)}"
    for entry in result.models:
        for variant in entry.variants:
            add_variant(table, entry, variant)
        table.add_section()
    for name in settings.sets:
        total = score.total_seconds(result, name)
        ratio = "" if name == contest.BASELINE else ratio_text(score.total_speedup(result, name))
        seconds = "failed" if total is None else f"{total:.1f}"
        table.add_row("[bold]total[/bold]", name, seconds, ratio, *[""] * len(MEASURES))
    return table

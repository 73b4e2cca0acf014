"""A slider that recomputes a small answer at once, without ipywidgets' `Output` (whose id changes with every run)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ipywidgets as widgets
from IPython.display import display


def explore(show: Callable[..., str], **choices: Sequence) -> widgets.VBox:
    """Show `show(**chosen)`, an HTML text, below one slider a keyword; it is recomputed as a slider moves.

    >>> explore(lambda V: f"{V * 4} bytes a row", V=[100, 1_000, 10_000])  # doctest: +SKIP
    """
    answer = widgets.HTML()
    sliders = {
        name: widgets.SelectionSlider(options=[(f"{v:,}", v) for v in values], value=values[len(values) // 2], description=name)
        for name, values in choices.items()
    }

    def update(_=None):
        answer.value = show(**{name: slider.value for name, slider in sliders.items()})

    for slider in sliders.values():
        slider.observe(update, names="value")
    update()
    box = widgets.VBox([*sliders.values(), answer])
    display(box)
    return box

"""Plots as a page that needs nothing else to be read. plotly is no dependency of the package: it is asked for beforehand."""

from __future__ import annotations

import html
import importlib.util
from collections.abc import Sequence
from pathlib import Path

from ctrlab.errors import CtrlabError
from ctrlab.paths import require_place


def check(path: Path) -> None:
    """Says before the work whether a page could be written after it.

    Raises:
        CtrlabError: plotly is not installed, or `path` can't be written.
    """
    if importlib.util.find_spec("plotly") is None:
        raise CtrlabError("Plots need plotly: pip install plotly, or leave --html out.")
    require_place(path)


def of_figures(figures: Sequence, title: str) -> str:
    """The page of some plotly figures; the first carries plotly.js for all."""
    parts = [figure.to_html(full_html=False, include_plotlyjs=k == 0) for k, figure in enumerate(figures)]
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title></head>'
    return f"{head}<body>{''.join(parts)}</body></html>"

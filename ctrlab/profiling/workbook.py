"""Whether the workbook is installed: the extra `ctrlab[lab]`, with the packages that only lessons and charts need.

This module imports none of it, so `ctrlab doctor` and `ctrlab lab` can say what is missing.
"""

from __future__ import annotations

import importlib.util

from ctrlab.errors import CtrlabError
from ctrlab.profiling.page import CURE

MODULES = ("IPython", "anywidget", "ipywidgets", "jinja2", "jupyterlab", "nbformat", "plotly", "plyvel")
"""The module names under which the extra's packages are imported."""


def missing() -> list[str]:
    """Those of MODULES that are not installed."""
    return [name for name in MODULES if importlib.util.find_spec(name) is None]


def require() -> None:
    """Checks before the work that the workbook can be opened.

    Raises:
        CtrlabError: a module of the extra is missing; it names them and the cure.
    """
    if names := missing():
        raise CtrlabError(f"The workbook needs packages that are not installed ({', '.join(names)}): {CURE}.")

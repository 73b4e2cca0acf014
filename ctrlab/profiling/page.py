"""Makes all HTML pages of the package: text and plots from a template, in one file that can be read without any other.

plotly and Jinja2 are not dependencies of the package: they come with `ctrlab[lab]`. `check` looks for them before the work
starts.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from ctrlab.errors import CtrlabError
from ctrlab.paths import require_place

CURE = 'pip install "ctrlab[lab]"'
TEMPLATE = Path(__file__).with_name("page.html")


def check(path: Path) -> None:
    """Checks before the work that a page can be written after it.

    Raises:
        CtrlabError: plotly or Jinja2 is not installed, or `path` can't be written.
    """
    for name in ("plotly", "jinja2"):
        if importlib.util.find_spec(name) is None:
            raise CtrlabError(f"Plots need {name}: {CURE}, or leave --html out.")
    require_place(path)


def of_figures(figures: Sequence, title: str, template: Path = TEMPLATE, **values) -> str:
    """The HTML page of some plotly figures; the first one contains plotly.js for all.

    Args:
        template: name of a template that extends page.html; it gets `values`. Text in them is escaped.
    """
    import jinja2

    folders = [template.parent, TEMPLATE.parent]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    drawn = [figure.to_html(full_html=False, include_plotlyjs=k == 0) for k, figure in enumerate(figures)]
    return environment.get_template(template.name).render(title=title, figures=drawn, **values)

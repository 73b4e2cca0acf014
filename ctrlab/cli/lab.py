"""`ctrlab lab`: the workbook in JupyterLab."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    port: Annotated[int, typer.Option(help="On loopback.")] = 8888,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
    progress: Annotated[bool, typer.Option("--progress", help="Only show which lessons are done, and how.")] = False,
) -> None:
    """Open the workbook in JupyterLab, on copies of the lessons that nothing overwrites once you touched them.

    - `ctrlab lab --port 8890 --no-browser`
    """
    from ctrlab.profiling import workbook

    workbook.require()
    from ctrlab.lessons import index, lab

    if progress:
        index.show_progress()
    else:
        raise typer.Exit(lab.open_lab(port, browser))

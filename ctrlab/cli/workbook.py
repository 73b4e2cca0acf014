"""`ctrlab doctor` and `ctrlab lab`: the workbook and what it needs."""

from __future__ import annotations

from typing import Annotated

import typer


def doctor() -> None:
    """Say what this machine has, what is missing, which lessons work here, and how to mend the rest."""
    from ctrlab.lessons import doctor

    raise typer.Exit(0 if doctor.report() else 1)


def lab(
    port: Annotated[int, typer.Option(help="On loopback.")] = 8888,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
    progress: Annotated[bool, typer.Option("--progress", help="Only show which lessons are done, and how.")] = False,
) -> None:
    """Open the workbook in JupyterLab, on copies of the lessons that nothing overwrites once you touched them.

    - `ctrlab lab --port 8890 --no-browser`
    """
    from ctrlab.lessons import index, lab

    if progress:
        index.show_progress()
    else:
        raise typer.Exit(lab.open_lab(port, browser))

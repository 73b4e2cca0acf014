"""`ctrlab data join`."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctrlab.cli.app import console, duration
from ctrlab.errors import CtrlabError

if TYPE_CHECKING:
    from ctrlab.data.join import Joined


def command(
    log: Annotated[Path, typer.Argument(help="The log of one model, as `ctrlab serve --log` writes it: LOG/<model>.")],
    labels: Annotated[Path, typer.Argument(help="A folder of Parquet or CSV files: _request, _row, _time, a column per label.")],
    out: Annotated[Path, typer.Option(help="A folder for the joined files, one per file of the log.", file_okay=False)],
    window: Annotated[str, typer.Option(help="How long after its answer an example's labels count: 30s, 1h.")] = "1h",
    delivery: Annotated[str, typer.Option(help="How long a label takes until its file is there, at most.")] = "",
    every: Annotated[str, typer.Option(help="Look again so often, without end; else join what is there, once.")] = "",
) -> None:
    """Join what a server scored with the labels that came within a window; where none came, an example's labels are 0.

    - `ctrlab serve models --log log`
    - `ctrlab data join log/ctr labels --window 1h --out joined --every 60s`
    - `ctrlab train deepfm --optimizations all --follow joined --publish models/ctr`
    """
    from ctrlab.data.join import follow, join

    if len({folder.resolve() for folder in (log, labels, out)}) < 3:
        raise CtrlabError(
            f"The log, the labels and the joined files are three folders; received {log}, {labels} and --out {out}: name another."
        )
    options = {"window": timedelta(seconds=duration("--window", window))}
    if delivery:
        options["delivery"] = timedelta(seconds=duration("--delivery", delivery))
    display = console()
    with display.status("Joining", spinner="dots") as status:
        options["on_file"] = lambda path: status.update(f"Joined {path}")
        if every:
            for found in follow(log, labels, out, every=duration("--every", every), **options):
                if found.files:
                    display.print(told(found), soft_wrap=True)
        else:
            display.print(told(join(log, labels, out, **options)), soft_wrap=True)


def told(found: Joined) -> str:
    """A line on what was joined."""
    positive = ", ".join(f"{count:,} {name}" for name, count in found.positive.items())
    said = f"{found.rows:,} examples of {found.files} files; labels for {found.labelled:,}"
    said += f" ({positive})" if positive else ""
    again = f"; {found.again:,} that came twice are left out" if found.again else ""
    late = f"; {found.late:,} labels came too late" if found.late else ""
    waiting = f"; the window of {found.waiting} files is not over" if found.waiting else ""
    return said + again + late + waiting + "."

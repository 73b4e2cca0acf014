"""The command line of the study, `ctrlab bench freshness`."""

from __future__ import annotations

from typing import Annotated

import typer

from ctrlab.cli.app import (
    JsonOption,
    ModelArgument,
    ProfileOption,
    console,
    duration,
    import_tensorflow,
    require_files,
    write_json,
)


def command(
    model: ModelArgument = "din",
    window: Annotated[str, typer.Option(help="In which a click counts.")] = "2s",
    log_every: Annotated[str, typer.Option(help="How long a file of the log, and of labels, is written.")] = "1s",
    publish_every: Annotated[str, typer.Option(help="How often the training publishes.")] = "1s",
    rows_per_second: Annotated[float, typer.Option(min=1, help="Examples that the client asks for.")] = 1024.0,
    seconds: Annotated[str, typer.Option(help="How long it asks.")] = "60s",
    profile: ProfileOption = None,
    json_path: JsonOption = None,
) -> None:
    """Serve, log, join, train and publish on this machine, and measure how long a click takes to the answers.

    - `ctrlab bench freshness din --window 2s`
    """
    require_files(json_path)
    import_tensorflow()
    import numpy as np

    from ctrlab.profiling.machine import machine
    from ctrlab.profiling.report import Part, Report
    from studies.freshness.bench import LoopTimes, measure

    setting = LoopTimes(
        window=duration("--window", window),
        log_every=duration("--log-every", log_every),
        publish_every=duration("--publish-every", publish_every),
        rows_per_second=rows_per_second,
        seconds=duration("--seconds", seconds),
    )
    out = console()
    with out.status("Starting", spinner="dots") as status:
        found = measure(model, setting, profile, status.update)
    facts = f"window {window}, log every {log_every}, published every {publish_every}"
    facts += f"; {found.requests:,} requests, {found.steps} steps"
    times = {"to a file to train on": found.joined, "to an answer that learned from it": found.learned}
    lines = [[name, *(f"{value:.2f}" for value in (*np.percentile(of, [50, 99]), max(of)))] for name, of in times.items()]
    part = Part(f"Freshness of {model}", ("from a click, s", "p50", "p99", "max"), lines, caption=f"{machine().line}\n{facts}")
    Report([part], [f"{found.clicks:,} clicks; {found.others:,} came too near to the end."]).show(out)
    write_json(json_path, found.to_json())

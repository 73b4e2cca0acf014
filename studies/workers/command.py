"""The command line of the study, `ctrlab bench workers`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from ctrlab.cli.app import (
    JsonOption,
    ModelArgument,
    OptimizationsOption,
    ProfileOption,
    console,
    import_tensorflow,
    require_files,
    write_json,
)
from ctrlab.errors import CtrlabError


def command(
    model: ModelArgument = "dlrm",
    workers: Annotated[str, typer.Option(help="Numbers of workers.")] = "2,4",
    batches: Annotated[str, typer.Option(help="Examples of a step, of all workers.")] = "512,2048",
    rates: Annotated[str, typer.Option(help="Megabits per second of each worker's link.")] = "100,1000",
    optimizations: OptimizationsOption = "all",
    embedding: Annotated[str, typer.Option(help="hashed, multihash or variable.")] = "hashed",
    rounds: Annotated[int, typer.Option(min=1, help="Blocks of steps over each link.")] = 12,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of weights and rows.")] = 2021,
    profile: ProfileOption = None,
    json_path: JsonOption = None,
) -> None:
    """Measure steps of several workers over slow links, and what travels beside the least that must.

    The links are Linux's network namespaces on this machine, which take root.

    - `ctrlab bench workers dlrm --workers 2 --rates 100,1000`
    - `ctrlab bench workers din --batches 1024 --json workers.json`
    """
    require_files(json_path)
    sizes = {"--workers": _numbers("--workers", workers, 2), "--batches": _numbers("--batches", batches, 1)}
    speeds = _numbers("--rates", rates, 1)
    import_tensorflow()
    from ctrlab.lessons.topics.more_workers.one_process import Job

    from ctrlab import optimizations as ladder
    from ctrlab.profiles import current
    from ctrlab.profiling.progress import track
    from ctrlab.profiling.records import record
    from studies.workers.bench import bench
    from studies.workers.report import report

    job = Job(model, list(ladder.resolve(optimizations)), embedding, current(profile).name, seed)

    def shown(name: str) -> Iterator[int]:
        return track(range(rounds), name)

    found = bench(job, sizes["--batches"], sizes["--workers"], speeds, shown)
    report([found]).show(console())
    write_json(json_path, record(**found.to_json()))


def _numbers(option: str, text: str, least: int) -> list[int]:
    try:
        found = [int(each) for each in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < least:
        raise CtrlabError(f"{option} takes whole numbers of at least {least}, joined by commas; received {text!r}.")
    return found

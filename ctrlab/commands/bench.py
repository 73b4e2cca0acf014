"""`ctrlab bench`: the ops' implementations against each other and against this machine."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ctrlab import data, profiles
from ctrlab.errors import choose
from ctrlab.models import MODELS, build
from ctrlab.ops.benches import bench_ops
from ctrlab.optimizations import of_level
from ctrlab.paths import cache_folder, require_place, write_atomically
from ctrlab.profiling.machine import machine
from ctrlab.profiling.timing import Interval
from ctrlab.training import make_optimizer, train_step
from ctrlab.training.input_bench import bench_input, share_of_pyarrow
from ctrlab.training.stall import measure_stall


def ops(names: list[str] | None, profile: str | None, json_path: Path | None) -> None:
    """Runs the benches, prints a table, writes the JSON.

    Raises:
        UnknownName: no such bench or profile. NativeLibraryError: the compiled library is missing.
        CtrlabError: the JSON can't be written.
    """
    if json_path:
        require_place(json_path)  # before minutes of measuring
    rows = bench_ops(names or None, profile)
    table = Table(title="Ops, forward and backward", caption=machine().line)
    for heading in ("bench", "implementation"):
        table.add_column(heading, no_wrap=True)
    for heading in ("milliseconds", "% of bound"):
        table.add_column(heading, justify="right")
    table.add_column("times as fast as")
    for i, row in enumerate(rows):
        if i and rows[i - 1].bench != row.bench:
            table.add_section()
        measured = row.measurement
        ratios = "\n".join(f"{name}: {ratio}" for name, ratio in row.speedup.items())
        table.add_row(row.bench, row.variant, f"{1e3 * measured.median:.3g}", f"{measured.percent_of_bound:.2g}", ratios)
    console = Console()
    console.print(table)
    for bench, shape in {row.bench: row.shape for row in rows}.items():
        console.print(f"{bench}: {shape}", highlight=False)
    if json_path:
        write_atomically(json_path, json.dumps([row.to_json() for row in rows], indent=1) + "\n")


def checkpoints(model: str, optimizations: str, profile: str | None) -> None:
    """Times the savers on a model in training, prints the table.

    Raises:
        UnknownName, CtrlabError: bad options, or the cache's disk refuses.
    """
    choose("model", model, MODELS)
    size = profiles.current(profile)
    built = build(model, optimizations=of_level(optimizations, "model"))
    optimizer = make_optimizer(built)
    files = data.prepare(built.data_set, profile=size)
    batch = next(iter(files.read_train(built.hyper.batch_size)))
    step = train_step(built, optimizer)
    found = measure_stall(built, optimizer, lambda: step(*batch), cache_folder(), size.repetitions)
    table = Table(title=f"A checkpoint of {model}, {found.megabytes:.0f} MB", caption=machine().line)
    for heading in ("saver", "save(), ms", "share of synchronous", f"stall over {found.steps} steps, ms", "share of synchronous"):
        table.add_column(heading, justify="left" if heading == "saver" else "right")
    for name in found.calls.measurements:
        call, stall = found.calls[name].interval, found.stall(name)
        table.add_row(name, _ms(call), str(found.call_share(name)), _ms(stall), str(found.stall_share(name)))
    Console().print(table)


def inputs(name: str, profile: str | None) -> None:
    """Times the formats on a data set, prints the table.

    Raises:
        UnknownName, CtrlabError: bad options, or the cache's disk refuses.
    """
    for batch, comparison in bench_input(name, profile).items():
        table = Table(title=f"{name}, from the file to {batch:,} ids a batch", caption=machine().line)
        table.add_column("format", no_wrap=True)
        for heading in ("us a batch", "million rows/s", "times as fast as CSV", "% of pyarrow alone"):
            table.add_column(heading, justify="right")
        for variant, measured in comparison.measurements.items():
            share = share_of_pyarrow(comparison, variant)
            table.add_row(
                variant,
                _scaled(measured.interval, 1e6 * batch),
                f"{1e-6 / measured.median:.3g}",
                str(comparison.ratio(variant)),
                _scaled(share, 100) if share else "",
            )
        Console().print(table)


def _ms(seconds: Interval) -> str:
    return f"{1e3 * seconds.median:.3g} [{1e3 * seconds.low:.3g}, {1e3 * seconds.high:.3g}]"


def _scaled(value: Interval, scale: float) -> str:
    return f"{scale * value.median:,.0f} [{scale * value.low:,.0f}, {scale * value.high:,.0f}]"

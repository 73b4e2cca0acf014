"""`ctrlab bench`: the ops' implementations against each other and against this machine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from ctrlab import profiles
from ctrlab.embedding.benches.store import BATCH, PEERS, PHASES, StoreBench, bench_store
from ctrlab.embedding.benches.table import BATCH as BATCH_OF_IDS
from ctrlab.embedding.benches.table import DIM, bench_embedding
from ctrlab.ops.benches import bench_ops
from ctrlab.paths import cache_folder, require_place, write_atomically
from ctrlab.profiling import page
from ctrlab.profiling.machine import machine
from ctrlab.profiling.timing import Interval
from ctrlab.training import Run, Spec
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
    with Run(Spec(model, optimizations, profile=profile)) as run:
        batch = next(run.batches)
        repetitions = profiles.current(profile).repetitions
        found = measure_stall(run.model, run.optimizer, lambda: run.step(*batch), cache_folder(), repetitions)
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


def store(row_bytes: list[int], profile: str | None, json_path: Path | None, html: Path | None) -> None:
    """Times the store beside its peers, prints a table, writes the JSON and the plot of latencies.

    Raises:
        UnknownName: no such profile. CtrlabError: it can't be compiled, fails, or a file can't be written.
    """
    if json_path:
        require_place(json_path)
    if html:
        page.check(html)
    found = [bench_store(size, profile) for size in row_bytes]
    console = Console()
    for each in found:
        for name in each.missing:
            console.print(f"{name} is left out: install {PEERS[name][1]} to have it measured.", highlight=False)
        table = Table(title=f"Random reads and updates, {each.keys:,} rows of {each.row_bytes} bytes", caption=machine().line)
        for heading in ("store", "phase"):
            table.add_column(heading, no_wrap=True)
        for heading in ("1000 rows/s", "ours is times as fast", "ms a batch, p50", "p99", "p99 compacting / p99", "% of bound"):
            table.add_column(heading, justify="right")
        for name in each.stores:
            for phase in PHASES:
                p50, p99 = 1e3 * np.percentile(each.reads(name, phase), [50, 99])
                table.add_row(
                    name,
                    phase,
                    f"{each.rows_per_second(name, phase).median / 1e3:.3g}",
                    "" if name == "ctrlab" else str(each.ratio(name, phase)),
                    f"{p50:.3g}",
                    f"{p99:.3g}",
                    str(each.stall(name)) if phase == "compacting" else "",
                    _scaled(each.percent_of_bound(name), 1) if phase == "read" else "",
                )
        console.print(table)
        console.print(f"Write amplification of ctrlab: {each.write_amplification():.2f}", highlight=False)
    if json_path:
        write_atomically(json_path, json.dumps([each.to_json() for each in found], indent=1) + "\n")
    if html:
        write_atomically(html, page_of(found))


def page_of(found: list[StoreBench]) -> str:
    """Of each size of rows, how long the stores' reads took, as a page that needs nothing else."""
    from ctrlab.profiling import charts

    figures = []
    for each in found:
        samples = {f"{name}, {phase}": each.reads(name, phase) for name in each.stores for phase in ("read", "compacting")}
        title = f"{BATCH:,} random reads of {each.row_bytes} bytes, with and without compaction"
        figures.append(charts.latency(samples, title=title, device=machine().line))
    return page.of_figures(figures, "Stores of rows on a disk")


def embedding(profile: str | None, json_path: Path | None) -> None:
    """Times the embedding variable beside a dense table and TensorFlow's hash tables, prints tables, writes the JSON.

    Raises:
        UnknownName: no such profile. NativeLibraryError: the compiled library is missing. CtrlabError: the JSON can't be written.
    """
    if json_path:
        require_place(json_path)
    found = bench_embedding(profile)
    console = Console()
    measured = (
        ("Lookup of", found.keys, found.gather),
        ("Lookup and step of Adagrad on", found.keys, found.step),
        ("Lookup of", found.table_keys, found.tables),
    )
    for what, keys, comparison in measured:
        table = Table(title=f"{what} {BATCH_OF_IDS:,} ids in {keys:,} keys, rows of {DIM}", caption=machine().line)
        table.add_column("table", no_wrap=True)
        for heading in ("ns an id", f"times as fast as {comparison.baseline}", "% of bound"):
            table.add_column(heading, justify="right")
        for name, one in comparison.measurements.items():
            share = f"{one.percent_of_bound:.2g}"
            table.add_row(name, f"{1e9 * one.median / BATCH_OF_IDS:.3g}", str(comparison.ratio(name)), share)
        console.print(table)
    console.print(
        f"{found.bytes_per_key:.1f} bytes a key, {found.bytes_per_key / found.floor_per_key:.3f} times those of key, value and "
        f"metadata; {found.peak_per_key:.1f} at most while it grew.",
        highlight=False,
    )
    if json_path:
        write_atomically(json_path, json.dumps(found.to_json(), indent=1) + "\n")


def _ms(seconds: Interval) -> str:
    return f"{1e3 * seconds.median:.3g} [{1e3 * seconds.low:.3g}, {1e3 * seconds.high:.3g}]"


def _scaled(value: Interval, scale: float) -> str:
    return f"{scale * value.median:,.0f} [{scale * value.low:,.0f}, {scale * value.high:,.0f}]"

"""The command line of the study, `ctrlab bench embedding`."""

from __future__ import annotations

from rich.table import Table

from ctrlab.cli.app import JsonOption, ProfileOption, console, import_tensorflow, require_files, write_json


def command(json_path: JsonOption = None, profile: ProfileOption = None) -> None:
    """Time an embedding variable's lookup beside a dense table's and beside TensorFlow's hash tables; report its memory.

    - `ctrlab bench embedding --profile full`
    - `ctrlab bench embedding --json embedding.json`
    """
    require_files(json_path)
    import_tensorflow()
    from ctrlab.profiling.machine import machine
    from studies.embedding.bench import BATCH, DIM, bench_embedding

    found, out = bench_embedding(profile), console()
    measured = (
        ("Lookup of", found.keys, found.gather),
        ("Lookup and step of Adagrad on", found.keys, found.step),
        ("Lookup of", found.table_keys, found.tables),
    )
    for what, keys, comparison in measured:
        table = Table(title=f"{what} {BATCH:,} ids in {keys:,} keys, rows of {DIM}", caption=machine().line)
        table.add_column("table", no_wrap=True)
        for heading in ("ns an id", f"times as fast as {comparison.baseline}", "% of bound"):
            table.add_column(heading, justify="right")
        for name, one in comparison.measurements.items():
            share = f"{one.percent_of_bound:.2g}"
            table.add_row(name, f"{1e9 * one.median / BATCH:.3g}", str(comparison.ratio(name)), share)
        out.print(table)
    out.print(
        f"{found.bytes_per_key:.1f} bytes a key, {found.bytes_per_key / found.floor_per_key:.3f} times those of key, value and "
        f"metadata; {found.peak_per_key:.1f} at most while it grew.",
        highlight=False,
        soft_wrap=True,
    )
    write_json(json_path, found.to_json())

"""The command line of the study, `ctrlab bench embedding`."""

from __future__ import annotations

from ctrlab.cli.app import JsonOption, ProfileOption, console, import_tensorflow, require_files, write_json


def command(json_path: JsonOption = None, profile: ProfileOption = None) -> None:
    """Time an embedding variable's lookup beside a dense table's and beside TensorFlow's hash tables; report its memory.

    - `ctrlab bench embedding --profile full`
    - `ctrlab bench embedding --json embedding.json`
    """
    require_files(json_path)
    import_tensorflow()
    from ctrlab.profiling.markdown import number
    from ctrlab.profiling.report import Part, Report
    from studies.embedding.bench import BATCH, DIM, bench_embedding

    found = bench_embedding(profile)
    measured = (
        ("Lookup of", found.keys, found.gather),
        ("Lookup and step of Adagrad on", found.keys, found.step),
        ("Lookup of", found.table_keys, found.tables),
    )
    parts = []
    for what, keys, comparison in measured:
        headings = ("table", "ns an id", f"times as fast as {comparison.baseline}", "% of bound")
        lines = [
            [name, number(1e9 * one.median / BATCH), str(comparison.ratio(name)), f"{one.percent_of_bound:.2g}"]
            for name, one in comparison.measurements.items()
        ]
        parts.append(Part(f"{what} {BATCH:,} ids in {keys:,} keys, rows of {DIM}", headings, lines))
    said = (
        f"{found.bytes_per_key:.1f} bytes a key, {found.bytes_per_key / found.floor_per_key:.3f} times those of key, value and "
    )
    Report(parts, [f"{said}metadata; {found.peak_per_key:.1f} at most while it grew."]).show(console())
    write_json(json_path, found.to_json())

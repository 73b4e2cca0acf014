"""The command line of the study, `ctrlab bench simulator`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlab.cli.app import JsonOption, ModelArgument, ProfileOption, console, import_tensorflow, require_files, write_json

if TYPE_CHECKING:
    from ctrlab.lessons.topics.more_workers.one_process import Parts

    from ctrlab.profiling.report import Report


def command(model: ModelArgument = "dlrm", profile: ProfileOption = None, json_path: JsonOption = None) -> None:
    """Measure what the simulator of many workers takes from a machine: steps, distinct ids, and what a launch costs its host.

    - `ctrlab bench simulator`
    - `ctrlab bench simulator deepfm --json parts.json`
    """
    require_files(json_path)
    import_tensorflow()
    from ctrlab.profiling.records import record
    from studies.simulator.measure import parts

    found = parts(model, profile)
    report(found).show(console())
    write_json(json_path, record(**found.to_json()))


def report(found: Parts) -> Report:
    """Tables of steps beside the line through them, of distinct ids, and of the cost of launches."""
    from ctrlab.profiling.report import Part, Report
    from ctrlab.profiling.timing import Interval

    fixed, per_example = found.line
    line = f"{1e3 * fixed:.2f} ms per step and {1e6 * per_example:.1f} us per example"
    steps = []
    for examples, seconds in zip(found.examples, found.seconds):
        middle, fitted = 1e3 * Interval.of(seconds).median, 1e3 * (fixed + per_example * examples)
        steps.append([f"{examples:,}", f"{middle:.2f}", f"{fitted:.2f} ({100 * (fitted / middle - 1):+.0f} %)"])
    ids = [[f"{examples:,.0f}", f"{count:,.0f}"] for examples, count in zip(found.distinct.examples, found.distinct.ids)]
    parts = [
        Part(f"Steps of {found.model}: {line}", ("examples", "ms", "the line, ms"), steps, words=0),
        Part("Distinct ids of a batch", ("examples", "ids"), ids, words=0),
    ]
    made = f"A thread hands over a tensor in {1e6 * found.tensor:.0f} us. XLA leaves {found.launches.compiled} launches"
    return Report(parts, [f"{made} of {found.launches.ops}."])

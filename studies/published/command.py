"""The command line of the study, `ctrlab bench published`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ctrlab.cli.app import JsonOption, console, require_files, write_json

if TYPE_CHECKING:
    from ctrlab.lessons.topics.more_workers.published import Range

WEIGHTS = (1e6, 3e6, 4e6, 1e7, 3e7, 1e8)
"""Numbers of dense weights for which a conclusion's batches are shown."""
EXAMPLES = (512, 2_048, 8_192, 32_768, 131_072)


def command(json_path: JsonOption = None) -> None:
    """Simulate what others published about more workers, and say for which numbers each conclusion holds.

    - `ctrlab bench published`
    """
    require_files(json_path)
    from ctrlab.lessons.topics.more_workers import published
    from ctrlab.lessons.topics.more_workers.aws import aws_cluster, aws_model
    from ctrlab.lessons.topics.more_workers.constants import V100
    from ctrlab.lessons.topics.more_workers.surface import over_dense

    from ctrlab.profiling.report import Part, Report

    cases, ranges, flips = published.cases(), published.ranges(), published.flips(WEIGHTS)
    joint = {factor: published.joint(factor) for factor in published.FACTORS}
    counts = over_dense(aws_model(), aws_cluster(), V100, WEIGHTS, EXAMPLES)
    parts = [
        Part(
            "What others found",
            ("published", "simulated", "comes out"),
            [[case.says, f"{case.simulated:.3g}", "yes" if case.holds else "no"] for case in cases],
            caption="Sources: AWS, 2024; NVIDIA",
        ),
        Part(
            "4 GPUs are at least as fast as 8, all else as it is",
            ("constant", "it is", "holds from", "to"),
            [_range(name, found) for name, found in ranges.items()],
            caption="Tried: from a 64th of a constant to 64 times it",
        ),
        Part(
            "Examples per step, by dense weights",
            ("fewer are as fast up to", *(f"{n / 1e6:g} M" for n in WEIGHTS)),
            [[name, *(f"{n:,.0f}" for n in most)] for name, most in flips.items()],
        ),
        Part(
            "All constants drawn together: % of draws in which it holds",
            ("each within a factor of", *(f"{factor:g}" for factor in joint)),
            [
                [conclusion, *(f"{100 * shares[conclusion]:.0f}" for shares in joint.values())]
                for conclusion in joint[published.FACTORS[0]]
            ],
            caption="Dense weights: 3 to 10 million",
        ),
        Part(
            "The fastest number of GPUs, by examples per step",
            ("dense weights", *(f"{n:,}" for n in EXAMPLES)),
            [[f"{dense / 1e6:g} M", *map(str, row)] for dense, row in zip(WEIGHTS, counts)],
            caption="Nodes of eight V100, which one loop feeds",
        ),
    ]
    Report(parts).show(console())
    kept = {
        "ranges": {name: found.to_json() for name, found in ranges.items()},
        "flips": {name: most.tolist() for name, most in flips.items()},
        "joint": {f"{factor:g}": shares for factor, shares in joint.items()},
        "fastest": counts.tolist(),
    }
    plain = [case.to_json() | {"high": None if math.isinf(case.high) else case.high} for case in cases]
    write_json(json_path, {"cases": plain, "weights": WEIGHTS} | kept)


def _range(name: str, found: Range) -> list[str]:
    low = "nowhere" if found.low is None else "any less" if found.any_less else f"{found.low:.3g}"
    high = "" if found.high is None else "any more" if found.any_more else f"{found.high:.3g}"
    return [name, f"{found.base:.3g}", low, high]

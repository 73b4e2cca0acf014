"""The command line of the study, `ctrlab bench published`."""

from __future__ import annotations

import math

from rich.table import Table

from ctrlab.cli.app import JsonOption, console, require_files, write_json

WEIGHTS = (1e6, 3e6, 4e6, 1e7, 3e7, 1e8)
"""Dense weights for which a conclusion's batches are shown."""
EXAMPLES = (512, 2_048, 8_192, 32_768, 131_072)


def command(json_path: JsonOption = None) -> None:
    """Simulate what others published about more workers, and say for which numbers each conclusion holds.

    - `ctrlab bench published`
    """
    require_files(json_path)
    from ctrlab.distributed.simulator.constants import V100
    from ctrlab.distributed.simulator.surface import over_dense
    from studies.published import cases as published

    cases, ranges, flips = published.cases(), published.ranges(), published.flips(WEIGHTS)
    out = console()
    table = Table("published", "simulated", "comes out", title="What others found", caption="Sources: AWS, 2024; NVIDIA")
    for case in cases:
        table.add_row(case.says, f"{case.simulated:.3g}", "yes" if case.holds else "no")
    out.print(table)
    title, caption = "4 GPUs are at least as fast as 8, all else as it is", "Tried: from a 64th of a constant to 64 times it"
    table = Table("constant", "it is", "holds from", "to", title=title, caption=caption)
    for name, found in ranges.items():
        low = "nowhere" if found.low is None else "any less" if found.any_less else f"{found.low:.3g}"
        high = "" if found.high is None else "any more" if found.any_more else f"{found.high:.3g}"
        table.add_row(name, f"{found.base:.3g}", low, high)
    out.print(table)
    table = Table("fewer are as fast up to", *(f"{n / 1e6:g} M" for n in WEIGHTS), title="Examples per step, by dense weights")
    for name, most in flips.items():
        table.add_row(name, *(f"{n:,.0f}" for n in most))
    out.print(table)
    joint = {factor: published.joint(factor) for factor in published.FACTORS}
    title, caption = "All constants drawn together: % of draws in which it holds", "Dense weights: 3 to 10 million"
    table = Table("each within a factor of", *(f"{factor:g}" for factor in joint), title=title, caption=caption)
    for conclusion in joint[published.FACTORS[0]]:
        table.add_row(conclusion, *(f"{100 * shares[conclusion]:.0f}" for shares in joint.values()))
    out.print(table)
    title, caption = "The fastest number of GPUs, by examples per step", "Nodes of eight V100, which one loop feeds"
    table = Table("dense weights", *(f"{n:,}" for n in EXAMPLES), title=title, caption=caption)
    counts = over_dense(published.aws_model(), published.aws_cluster(), V100, WEIGHTS, EXAMPLES)
    for dense, row in zip(WEIGHTS, counts):
        table.add_row(f"{dense / 1e6:g} M", *map(str, row))
    out.print(table)
    kept = {
        "ranges": {name: found.to_json() for name, found in ranges.items()},
        "flips": {name: most.tolist() for name, most in flips.items()},
        "joint": {f"{factor:g}": shares for factor, shares in joint.items()},
        "fastest": counts.tolist(),
    }
    plain = [case.to_json() | {"high": None if math.isinf(case.high) else case.high} for case in cases]
    write_json(json_path, {"cases": plain, "weights": WEIGHTS} | kept)

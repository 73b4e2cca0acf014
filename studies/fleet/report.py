"""Records of `ctrlab bench fleet` as tables in Markdown: curves, the simulation beside real cores, and policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ctrlab.fleet.allocation import POLICIES
from ctrlab.fleet.curve import ServiceCurve
from ctrlab.profiling.markdown import number, percent, table
from studies.fleet.check import Check, Setting

CURVES = ("model", "fixed, us", "per row, us", "after another model, us more", "after a rest, us more", "beside another, % more")
TIMES = ("mean, ms", "mean simulated, ms", "mean off", "p99, ms", "p99 simulated, ms", "p99 off")
SETTINGS = ("cores", "busy", "model", "requests", *TIMES)
CARRIED = ("cores", "variants", "their work", "limit, times the mean", "crowding, times", *(f"{name}, %" for name in POLICIES))
MORE = ("dedicated more than split", "dedicated more than shared")


def tables(records: Sequence[Mapping]) -> str:
    found = []
    for record in records:
        measured = Check.from_json({"curves": record["curves"], "settings": record["settings"]})
        found += [
            f"What a request costs one core:\n\n{table(CURVES, [curve_line(*each) for each in measured.curves.items()])}",
            f"The time to an answer, measured and simulated:\n\n{table(SETTINGS, map(_setting, measured.settings))}",
        ]
        if record["experiments"]:
            lines = [_experiment(record["cores"], each) for each in record["experiments"]]
            said = "How much of the machine each policy keeps busy with every model within its limit"
            found.append(f"{said}:\n\n{table(CARRIED + MORE, lines)}")
    return "\n\n".join(found)


def curve_line(name: str, curve: ServiceCurve) -> list[str]:
    figures = (1e6 * curve.fixed, 1e6 * curve.per_row, 1e6 * curve.cold, 1e6 * curve.idle, 100 * curve.crowding)
    return [name, *map(number, figures)]


def _setting(each: Setting) -> list[str]:
    mean = [number(1e3 * each.measured_mean), number(1e3 * each.simulated_mean), percent(each.mean_error)]
    p99 = [number(1e3 * each.measured_p99), number(1e3 * each.simulated_p99), percent(each.p99_error)]
    return [each.pools, f"{100 * each.utilization:.0f} %", each.model, f"{each.requests:,}", *mean, *p99]


def _experiment(cores: int, each: Mapping) -> list[str]:
    carried = each["carried"]
    facts = [str(cores), str(each["variants"]), f"{100 * each['share']:.0f} %"]
    facts += [f"{each['patience']:g}", f"{each['crowding']:g}"]
    busy = [f"{100 * carried[policy]:.0f}" for policy in POLICIES]
    more = ["" if not carried[policy] else percent(carried["dedicated"] / carried[policy] - 1) for policy in ("split", "shared")]
    return [*facts, *busy, *more]

"""The results of `ctrlab bench fleet` as tables: curves, the simulation beside real cores, and policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ctrlab.lessons.topics.share_cores.allocation import POLICIES
from ctrlab.lessons.topics.share_cores.curve import ServiceCurve

from ctrlab.profiling.markdown import number, percent
from ctrlab.profiling.report import Part, Report
from studies.fleet.check import Check, PoolTimes

CURVES = ("model", "fixed, us", "per row, us", "after another model, us more", "after a rest, us more", "beside another, % more")
TIMES = ("mean, ms", "mean simulated, ms", "mean off", "p99, ms", "p99 simulated, ms", "p99 off")
SETTINGS = ("cores", "busy", "model", "requests", *TIMES)
CARRIED = ("cores", "variants", "their work", "limit, times the mean", "crowding, times", *(f"{name}, %" for name in POLICIES))
MORE = ("dedicated more than split", "dedicated more than shared")


def tables(records: Sequence[Mapping]) -> str:
    return "\n\n".join(report(record).markdown() for record in records)


def report(record: Mapping) -> Report:
    """The tables of one record; those of the experiments only if there were any."""
    measured = Check.from_json({"curves": record["curves"], "settings": record["settings"]})
    parts = [
        Part.of("What a request costs one core", CURVES, (_curve(*each) for each in measured.curves.items())),
        Part.of("The time to an answer, measured and simulated", SETTINGS, map(_setting, measured.settings), words=3, kinds=1),
    ]
    if record["experiments"]:
        lines = (_experiment(record["cores"], each) for each in record["experiments"])
        said = "How much of the machine each policy keeps busy with every model within its limit"
        parts.append(Part.of(said, CARRIED + MORE, lines, words=0, kinds=1))
    return Report(parts)


def _curve(name: str, curve: ServiceCurve) -> list[str]:
    figures = (1e6 * curve.fixed, 1e6 * curve.per_row, 1e6 * curve.cold, 1e6 * curve.idle, 100 * curve.crowding)
    return [name, *map(number, figures)]


def _setting(each: PoolTimes) -> list[str]:
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

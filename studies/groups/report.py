"""The results of `ctrlab bench groups` as tables: requests per second, p99 beside others, and larger machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ctrlab.profiling.markdown import interval, number, percent
from ctrlab.profiling.records import found_in
from ctrlab.profiling.report import Part, Report
from ctrlab.profiling.timing import Interval
from studies.groups.bench import PROCESSORS, SESSIONS, GroupsFound
from studies.groups.splitting import CORES, FITTED

BASES = (*SESSIONS, *PROCESSORS[:2])
"""The side with which each side is compared; sessions are only compared with sessions."""
RATES = ("model", "graph", "side", "requests per s", *(f"times {base}" for base in BASES))
WHERE = ("light model", "heavy model", "graph", "threads")
P99 = (*WHERE, "alone, ms", "beside the heavy one, ms", "heavy requests per s", "while versions change, ms")
POOLS = ("model", "graph", "threads", "CPU us per request", "the model says", "off")
GAINS = ("model", "graph", *(f"{cores} cores" for cores in CORES))


def tables(records: Sequence[Mapping]) -> str:
    return report([(record["optimizations"], found_in(GroupsFound, record, "optimizations")) for record in records]).markdown()


def report(found: Sequence[tuple[str, GroupsFound]]) -> Report:
    """The tables of several graphs; each graph comes with its optimizations."""
    parts = {
        "Requests per second, from a caller per core": (RATES, _rates, 3),
        "The light model's 99th percentile": (P99, _p99, 4),
        "What more threads in one pool cost": (POOLS, _pools, 2),
        "A group's gain on larger machines, estimated from that": (GAINS, _gains, 2),
    }
    return Report(
        [
            Part.of(said, headings, (line for each in found for line in lines(*each)), words=words, kinds=2)
            for said, (headings, lines, words) in parts.items()
        ],
        [f"{each.versions} versions of {each.light} came while they changed." for _, each in found],
    )


def _rates(graph: str, found: GroupsFound) -> list[list[str]]:
    lines = []
    for side, rates in found.per_second.items():
        name = f"tuned ({found.tuning[0]} intra, {found.tuning[1]} inter)" if side == "tuned" else side
        bases = SESSIONS if side in SESSIONS else BASES
        ratios = [_ratio(rates, found.per_second.get(base)) if base in bases and base != side else "" for base in BASES]
        lines.append([f"{found.model}, {found.rows} candidates", graph, name, interval(Interval.of(rates)), *ratios])
    return lines


def _ratio(ours: Sequence[float], theirs: Sequence[float] | None) -> str:
    return interval(Interval.of([one / other for one, other in zip(ours, theirs)])) if theirs else ""


def _p99(graph: str, found: GroupsFound) -> list[list[str]]:
    def ms(samples: Sequence[float]) -> str:
        return interval(Interval.of(samples), 1e3)

    return [
        [
            found.light,
            found.heavy,
            graph,
            layout,
            ms(found.alone[layout]),
            ms(found.beside[layout]),
            interval(Interval.of(found.heavy_per_second[layout])),
            ms(found.changing[layout]),
        ]
        for layout in found.beside
    ]


def _pools(graph: str, found: GroupsFound) -> list[list[str]]:
    """The table of pools. Pools to which the constants were fitted show no error, because it would mean nothing."""
    model, errors = found.pools.fitted(), found.pools.errors()
    return [
        [
            found.model,
            graph,
            str(threads),
            interval(Interval.of(cpu), 1e6),
            number(1e6 * model.cpu(threads)),
            "fitted" if threads in FITTED else percent(errors[threads]),
        ]
        for threads, cpu in zip(found.pools.threads, found.pools.cpu)
    ]


def _gains(graph: str, found: GroupsFound) -> list[list[str]]:
    model = found.pools.fitted()
    return [[found.model, graph, *(percent(model.gain(cores) - 1) for cores in CORES)]]

"""Records of `ctrlab bench groups` as tables in Markdown: requests per second, p99 beside others, and larger machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ctrlab.profiling.markdown import interval, number, percent, table
from ctrlab.profiling.records import found_in
from ctrlab.profiling.timing import Interval
from studies.groups.bench import PROCESSORS, SESSIONS, Found
from studies.groups.splitting import CORES, FITTED

BASES = (*SESSIONS, *PROCESSORS[:2])
"""What each side is compared with; sessions with sessions alone."""
RATES = ("model", "graph", "side", "requests per s", *(f"times {base}" for base in BASES))
WHERE = ("light model", "heavy model", "graph", "threads")
P99 = (*WHERE, "alone, ms", "beside the heavy one, ms", "heavy requests per s", "while versions change, ms")
POOLS = ("model", "graph", "threads", "CPU us per request", "the model says", "off")
GAINS = ("model", "graph", *(f"{cores} cores" for cores in CORES))


def tables(records: Sequence[Mapping]) -> str:
    found = [(record["optimizations"], found_in(Found, record, "optimizations")) for record in records]
    parts = {
        "Requests per second, from a caller per core": (RATES, _rates),
        "The light model's 99th percentile": (P99, _p99),
        "What more threads in one pool cost": (POOLS, _pools),
        "A group's gain on larger machines, estimated from that": (GAINS, _gains),
    }
    return "\n\n".join(
        f"{said}:\n\n{table(headings, [line for each in found for line in lines(*each)])}"
        for said, (headings, lines) in parts.items()
    )


def _rates(graph: str, found: Found) -> list[list[str]]:
    lines = []
    for side, rates in found.per_second.items():
        name = f"tuned ({found.tuning[0]} intra, {found.tuning[1]} inter)" if side == "tuned" else side
        bases = SESSIONS if side in SESSIONS else BASES
        ratios = [_ratio(rates, found.per_second.get(base)) if base in bases and base != side else "" for base in BASES]
        lines.append([f"{found.model}, {found.rows} candidates", graph, name, interval(Interval.of(rates)), *ratios])
    return lines


def _ratio(ours: Sequence[float], theirs: Sequence[float] | None) -> str:
    return interval(Interval.of([one / other for one, other in zip(ours, theirs)])) if theirs else ""


def _p99(graph: str, found: Found) -> list[list[str]]:
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


def _pools(graph: str, found: Found) -> list[list[str]]:
    """Those that the constants are of say nothing of how far they are off."""
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


def _gains(graph: str, found: Found) -> list[list[str]]:
    model = found.pools.fitted()
    return [[found.model, graph, *(percent(model.gain(cores) - 1) for cores in CORES)]]

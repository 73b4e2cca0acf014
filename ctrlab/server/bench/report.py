"""The results of `ctrlab bench serving` as tables: CPU time for each number of candidates, and the most requests per second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ctrlab.profiling.markdown import interval, number
from ctrlab.profiling.report import Part, Report
from ctrlab.profiling.timing import Interval
from ctrlab.server.bench import beside_stock
from ctrlab.server.bench.beside_stock import LIMIT, SHORT, SideOnModel, ratio

BARE = "stock, our processor"
"""The side with whose graph the others are compared without a front."""
CPU = ("model", "side", "CPU us per request", "times less", "without a front, us", "times less than stock")
MOST = ("model", "side", "limit, ms", "requests per s within it", "times the stock server's", f"within {1e3 * SHORT:g} ms")


def tables(records: Sequence[Mapping]) -> str:
    return report([SideOnModel(**row) for record in records for row in record["rows"]]).markdown()


def report(rows: Sequence[SideOnModel]) -> Report:
    found = []
    for count in sorted({row.rows for row in rows}):
        chosen = [row for row in rows if row.rows == count]
        sides = {(row.model, row.side): row for row in chosen}
        said = f"{count} candidates" if count > 1 else "One candidate"
        found.append(Part.of(f"{said}, CPU time", CPU, (_cpu(row, sides) for row in chosen), words=2, kinds=1))
        if searched := [row for row in chosen if row.most]:
            said += f", the most requests; the limit is {LIMIT:g} times the stock server's unloaded median"
            lines = (_most(row, sides[row.model, beside_stock.STOCK]) for row in searched)
            found.append(Part.of(said, MOST, lines, words=2, kinds=1))
    return Report(found)


def _cpu(row: SideOnModel, sides: Mapping[tuple[str, str], SideOnModel]) -> list[str]:
    stock, bare = sides[row.model, beside_stock.STOCK], sides[row.model, BARE]
    cells = [row.model, row.side, number(1e6 * Interval.of(row.cpu).median)]
    cells.append("" if row is stock else interval(ratio(stock, row)))
    if not row.alone:
        return [*cells, "", ""]
    less = Interval.of([theirs / ours for theirs, ours in zip(bare.alone, row.alone)])
    return [*cells, number(1e6 * Interval.of(row.alone).median), "" if row is bare else interval(less)]


def _most(row: SideOnModel, stock: SideOnModel) -> list[str]:
    """The cells on the most requests per second. If the stock server reaches none, the ratio stays empty."""
    times = ""
    if row is not stock and min(stock.most) > 0:
        times = interval(Interval.of([ours / theirs for ours, theirs in zip(row.most, stock.most)]))
    within, short = (interval(Interval.of(most)) for most in (row.most, row.most_short))
    return [row.model, row.side, number(1e3 * row.limit), within, times, short]

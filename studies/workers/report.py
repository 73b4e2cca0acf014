"""The results of `ctrlab bench workers` as tables: the bytes that a step sends, and its slowdown over slow links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ctrlab.lessons.topics.more_workers.measured import Found, Measured

from ctrlab.profiling.markdown import interval, number, percent
from ctrlab.profiling.records import found_in
from ctrlab.profiling.report import Part, Report
from ctrlab.profiling.timing import Interval

SENT = ("model", "batch", "workers", "kB per step", "least kB", "% of bound", "packets", "all-reduces", "all-to-alls")
STEPS = ("model", "batch", "workers", "link", "step, ms", "times one worker's part alone", "link's ms", "of it hidden", "at most")


def tables(records: Sequence[Mapping]) -> str:
    return report([found_in(Found, record) for record in records]).markdown()


def report(found: Sequence[Found]) -> Report:
    parts = {"What a worker sends per step": (SENT, _sent), "What slow links cost": (STEPS, _steps)}
    return Report(
        [
            Part.of(said, headings, (line for each in found for line in lines(each)), kinds=3)
            for said, (headings, lines) in parts.items()
        ]
    )


def _sent(found: Found) -> list[list[str]]:
    """The table of sent bytes over links as fast as the machine, whose large packets add hardly any bytes of their own."""
    return [
        [
            *_group(m),
            number(m.bytes / 1e3),
            number(m.least.bytes / 1e3),
            number(100 * m.least.bytes / m.bytes),
            number(m.packets),
            str(m.reduces),
            str(m.exchanges),
        ]
        for m in found.measured
        if m.megabits is None
    ]


def _steps(found: Found) -> list[list[str]]:
    lines = []
    for m in found.measured:
        free, alone = found.of(m.batch, m.workers, None), found.part(m)
        times = Interval.of([ours / own for ours, own in zip(m.seconds, alone.seconds)])
        link = [""] * 3
        if m.megabits is not None:
            most = percent(m.most_hidden(alone))
            link = [number(1e3 * m.link_seconds), interval(m.hidden(free), shown=percent), most]
        name = "the machine's" if m.megabits is None else f"{m.megabits:g} Mbit/s"
        lines.append([*_group(m), name, interval(Interval.of(m.seconds), 1e3), interval(times), *link])
    return lines


def _group(m: Measured) -> list[str]:
    return [m.model, str(m.batch), str(m.workers)]

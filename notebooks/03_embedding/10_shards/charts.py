"""Charts of numbers that workers send while they train."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from ctrlab.distributed.local_workers import Told


@contextlib.contextmanager
def live_charts(lab, titles: Mapping[str, str]) -> Iterator[Told]:
    """One chart per number that workers send, {name of the number: title of the chart, with the unit after a comma}; one curve
    per worker.
    """
    with contextlib.ExitStack() as held:
        parts = {name: title.rsplit(", ", 1) for name, title in titles.items()}
        charts = {name: held.enter_context(lab.live_chart(each[0], each[-1])) for name, each in parts.items()}

        seen, early = set(), []

        def told(worker: int, x: float, numbers: Mapping[str, float]) -> None:
            seen.add(worker)
            early.append((worker, x, numbers))
            if seen != set(range(max(seen) + 1)):
                return  # so that curves, and their colours, are in the order of the workers
            for index, x, numbers in sorted(early, key=lambda each: each[0]):
                for name, chart in charts.items():
                    chart.add(f"worker {index}", x, numbers[name])
            early.clear()

        yield told

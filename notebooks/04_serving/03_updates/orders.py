"""Every order in which threads may run, of which only one runs at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence


def every_order(run: Callable[[Callable[[Sequence[str]], str]], None]) -> Iterator[int]:
    """Calls `run(choose)` once for each order of its threads, and yields after each; `choose(names)` returns the thread that
    runs next.
    """
    decided: list[int] = []  # which of those who could go went
    options: list[int] = []  # how many there were

    def choose(names: Sequence[str]) -> str:
        place = decided[len(options)] if len(options) < len(decided) else 0
        options.append(len(names))
        return names[place]

    for count in itertools.count(1):
        options.clear()
        run(choose)
        yield count
        decided += [0] * (len(options) - len(decided))
        while decided and decided[-1] + 1 == options[len(decided) - 1]:
            decided.pop()
        if not decided:
            return
        decided[-1] += 1

"""The most requests per second that a server answers within a limit: doubled until it fails, then bisected.

A rate holds if 99 % of all its requests are answered within the limit. Other work on the machine only slows a server down, so a
rate that fails is tried once more, with another schedule, before it counts as failed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ctrlab.errors import CtrlabError
from ctrlab.load.outcome import LATE, Outcome
from ctrlab.plain import Plain

PERCENT = 99
PRECISION = 1.08
"""The search ends when the ratio of a failed rate to one that held is at most this."""
LEAST = 1.0
"""The lowest rate that is tried, in requests per second. If it fails, the result is 0."""


@dataclass(frozen=True)
class Most(Plain):
    """The result of a search.

    Attributes:
        rate: the largest rate that held, in answered requests per second; 0 if none did.
        within: the limit, seconds.
        tries: every run, in order.
        of_generator: whether the generator limited the search: the server may reach more.
    """

    rate: float
    within: float
    tries: tuple[Outcome, ...]
    of_generator: bool = False


def most_within(run: Callable[[float, int], Outcome], within: float, start: float, highest: float = 100_000.0) -> Most:
    """Searches for the largest rate whose 99th percentile stays within the limit.

    Args:
        run: (rate, seed) -> the outcome of a schedule of that rate.
        within: the limit, in seconds.
        start: the rate that is tried first.
    Raises:
        CtrlabError: a limit or a rate is not above 0.
    """
    if not (within > 0 and math.isfinite(within) and LEAST <= start <= highest):
        raise CtrlabError(
            f"A search has a limit above 0 and begins at {LEAST:g} to {highest:g} a second; received {within}, {start}."
        )
    tries: list[Outcome] = []
    held: dict[float, float] = {}

    def holds(rate: float) -> bool | None:
        """Whether the rate holds; None if the generator could not reach it."""
        behind = 0
        for _ in range(2):
            outcome = run(rate, len(tries))
            tries.append(outcome)
            if outcome.percentile(PERCENT) <= within:
                held[rate] = min(outcome.achieved, rate)
                return True
            behind += outcome.behind(min(LATE, within / 4))
        return None if behind == 2 else False

    low, high, of_generator = 0.0, math.inf, False
    rate = start
    while low == 0 or high == math.inf:
        found = holds(rate)
        if found:
            low = rate
            if rate >= highest:
                break
        else:
            high, of_generator = rate, found is None
            if rate <= LEAST:
                break
        if high == math.inf:
            rate = min(2 * low, highest)
        elif low == 0:  # after a second failure the limit may be out of reach at any rate: the least one tells
            rate = max(high / 2, LEAST) if high == start else LEAST
    while low and high / low > PRECISION and high < math.inf:
        rate = math.sqrt(low * high)
        found = holds(rate)
        if found:
            low = rate
        else:
            high, of_generator = rate, found is None
    return Most(held[low] if low else 0.0, within, tuple(tries), of_generator)

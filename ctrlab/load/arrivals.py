"""The times at which requests are due: a Poisson process, as for independent users; or evenly, to warm a server up."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.profiling.timing import now


def poisson(rate: float, seconds: float, seed: int = 0, most: int = 1_000_000) -> np.ndarray:
    """Due times of a Poisson process, in seconds from the beginning: float64 [N], ascending, all below `seconds`. Gaps are
    exponential with the mean 1 / rate.

    Args:
        rate: average number of requests per second.
        most: the largest number of requests; with it the schedule may end before `seconds`.
    Raises:
        CtrlabError: a rate, a time or a number is not above 0.
    """
    for what, value in {"rate": rate, "time in seconds": seconds, "largest number of requests": most}.items():
        if not (math.isfinite(value) and value > 0):
            raise CtrlabError(f"The {what} of a load is a number above 0; received {value}.")
    mean = rate * seconds
    enough = min(most, math.ceil(mean + 10 * math.sqrt(mean) + 10))  # that too few are drawn is a matter of ten deviations
    due = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, enough))
    return due[due < seconds]


def even(rate: float, seconds: float) -> np.ndarray:
    """Evenly spaced due times, in seconds from the beginning: float64 [N]. The first is 0, the others are 1 / rate apart; at
    least one.
    """
    return np.arange(max(1, math.floor(rate * seconds))) / rate


def paced(due: Iterable[float], begun: float | None = None) -> Iterator[tuple[int, float]]:
    """Sleeps until each request is due, and yields its number and its due time, by `ctrlab.profiling.timing.now`. A caller that
    hands each request to a thread or a queue, and waits for none, makes an open loop.

    Args:
        due: seconds from the beginning, ascending.
        begun: the time of the beginning; None: now.
    """
    begun = now() if begun is None else begun
    for number, at in enumerate(due):
        time.sleep(max(0.0, begun + at - now()))
        yield number, begun + at

"""How long requests wait for one of several workers, by formulas: enough to say how many workers a load needs.

Let a load keep c of n workers busy. A request then waits with probability C, by Erlang's formula, and the waiting time is about
exponentially distributed. Allen and Cunneen scale its mean by the variation of the service times:

    P(wait > t) = C(n, c) exp(-t / W),    W = s (1 + v) / (2 (n - c)),    s: the mean service time, v: its squared variation

Source: Allen, "Probability, Statistics, and Queueing Theory", 1990.
"""

from __future__ import annotations

import math

import numpy as np

DIGITS = 30
"""Number of binary digits to which a percentile is computed."""


def chance_to_wait(workers: int, busy: float) -> float:
    """Erlang's C: the probability that all `workers` are busy when a request comes, if the load keeps `busy` of them busy."""
    if busy >= workers:
        return 1.0
    if busy <= 0:
        return 0.0
    blocked = 1.0  # Erlang's B, by recursion over the workers: no factorial overflows
    for n in range(1, workers + 1):
        blocked = busy * blocked / (n + busy * blocked)
    return blocked / (1 - busy / workers * (1 - blocked))


def percentile(times: np.ndarray, per_second: float, workers: int, percent: float = 99.0, rest: float = 0.0) -> float:
    """A percentile of the seconds to an answer; infinite if the workers can't keep up.

    Requests come at random and are served in order of arrival, so the waiting time of a request is independent of its service
    time. The probability that both together take longer than t is that of a wait longer than t - s, averaged over the service
    times s.

    Args:
        times: float64: service times in seconds, all equally likely.
        per_second: average number of requests per second.
        rest: additional seconds of a request that does not wait, because its worker was idle.
    """
    seconds, variation = float(np.mean(times)), float(np.var(times) / np.mean(times) ** 2)
    work = per_second * seconds
    busy = work + per_second * rest * (1 - chance_to_wait(workers, work))
    if busy >= workers:
        return math.inf
    waits, scale = chance_to_wait(workers, busy), seconds * (1 + variation) / (2 * (workers - busy))
    late = 1 - percent / 100
    low, high = 0.0, float(np.max(times)) + rest + scale * math.log(max(waits, late) / late)
    for _ in range(DIGITS):
        middle = (low + high) / 2
        waiting = np.exp(-np.maximum(middle - times, 0.0) / scale)
        longer = (1 - waits) * (times + rest > middle) + waits * waiting
        low, high = (middle, high) if longer.mean() > late else (low, middle)
    return high

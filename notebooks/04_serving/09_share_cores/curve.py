"""The time that a core works on a request: a line over the rows of the request, fitted to measured times.

seconds = (fixed + per_row * rows) * s        on a core that served the same model before; s is drawn from `spread`
          + cold                              where the core served another model before: its caches hold that one's weights
          + idle                              where the core had nothing to do before: it slept, and others had its caches
          times 1 + crowding * b              where a share b of the machine's other cores is busy: memory and clock are shared
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.plain import Plain


@dataclass(frozen=True)
class ServiceCurve(Plain):
    """What a request costs one core.

    Attributes:
        fixed, per_row: seconds per request, and per row of it.
        cold: additional seconds if the core's last request was for another model.
        idle: additional seconds if the core had no request before this one came.
        crowding: the fraction by which all other cores, when they are busy, slow this one down.
        spread: ratios of measured times to fitted ones; their mean is 1.
    """

    fixed: float
    per_row: float
    cold: float = 0.0
    idle: float = 0.0
    crowding: float = 0.0
    spread: tuple[float, ...] = (1.0,)

    @classmethod
    def fit(
        cls, seconds: Mapping[int, Sequence[float]], *, cold: float = 0.0, idle: float = 0.0, crowding: float = 0.0
    ) -> ServiceCurve:
        """Fits a line through the mean times; errors count relative to the size of each time.

        Args:
            seconds: {rows: measured times of requests with this number of rows}, one after the other on a core that does nothing
                else.
        Raises:
            CtrlabError: fewer than two numbers of rows, or a time that is not above 0.
        """
        if len(seconds) < 2 or not all(len(times) and min(times) > 0 for times in seconds.values()):
            raise CtrlabError(
                "A curve is fitted to times above 0 of at least two numbers of rows; received "
                f"{ {rows: len(times) for rows, times in seconds.items()} } times by rows."
            )
        rows = np.array(list(seconds), float)
        means = np.array([np.mean(times) for times in seconds.values()])
        columns = np.stack([np.ones_like(rows), rows], 1) / means[:, None]
        fixed, per_row = np.maximum(np.linalg.lstsq(columns, np.ones_like(rows), rcond=None)[0], 0.0)
        ratios = np.concatenate([np.asarray(times) / (fixed + per_row * n) for n, times in seconds.items()])
        return cls(float(fixed), float(per_row), cold, idle, crowding, tuple(float(r) for r in np.sort(ratios / ratios.mean())))

    def mean(self, rows: float) -> float:
        """The mean seconds of a request on a warm core, with all other cores idle. For several numbers of rows, pass their
        mean.
        """
        return self.fixed + self.per_row * rows

    def slower(self, times: float) -> ServiceCurve:
        """The curve of a model whose requests take this many times as long."""
        return replace(self, **{name: times * getattr(self, name) for name in ("fixed", "per_row", "cold", "idle")})

    def beside(self, busy: float) -> ServiceCurve:
        """The curve on a machine where a share `busy` of the other cores is always busy."""
        return replace(self.slower(1 + self.crowding * busy), crowding=0.0)


@dataclass(frozen=True)
class Load(Plain):
    """The requests for one model: they come at random, and do not wait for each other.

    Attributes:
        per_second: average number of requests per second.
        rows: each request has one of these numbers of rows, all equally likely.
        within: seconds within which 99 of 100 requests must be answered.
    """

    curve: ServiceCurve
    per_second: float
    rows: tuple[int, ...]
    within: float

    def __post_init__(self):
        if not self.rows or min(self.rows) < 1 or self.per_second < 0 or self.within <= 0:
            raise CtrlabError(
                "A load has requests of at least 1 row, a rate of at least 0 and a limit above 0; received "
                f"{self.rows} rows, {self.per_second} per second within {self.within} s."
            )

    @property
    def work(self) -> float:
        """The number of cores that the load keeps busy."""
        return self.per_second * self.curve.mean(float(np.mean(self.rows)))

    def times(self, factor: float) -> Load:
        """The load with this many times the requests per second."""
        return Load(self.curve, self.per_second * factor, self.rows, self.within)

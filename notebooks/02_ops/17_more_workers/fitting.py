"""Checks the simulator with real steps: constants are fitted to some of the steps that `ctrlab bench workers` measured.

    fixed, per_example     the line through the steps of one process that had the machine for itself
    sharing, per_id        what exchanges cost besides: fitted, with
    message                what a message costs a thread, and
    byte                   what a byte costs a host at least

Workers of the bench are processes of one machine, which share its cores. Links without a rate carry large packets, so `byte` does
not apply to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from ctrlab.lessons.topics.more_workers.null import Null
from scipy.optimize import nnls

from ctrlab.distributed import require
from ctrlab.distributed.simulator.cluster import Cluster, Host, Link
from ctrlab.distributed.simulator.model import FLOAT, Distinct, Model
from ctrlab.distributed.simulator.step import step
from ctrlab.errors import CtrlabError
from ctrlab.plain import Plain

if TYPE_CHECKING:
    from ctrlab.lessons.topics.more_workers.measured import Measured

FRAME = 1514 / 1448
"""Bytes of an Ethernet frame divided by the bytes that TCP carries in it."""
PADDING = 17 / 16
"""Sent bytes of ids and rows divided by the needed ones, because of padding to `collectives.SIZES`."""
BYTES = np.arange(0, 60, 0.5) * 1e-9
"""The values of seconds per byte that are tried for a host."""
MANY = 10**6
"""More workers per node than exist, so that all belong to one node: they share its cores, and each has its own link."""


@dataclass(frozen=True)
class Setting(Plain):
    """A measured setting and its simulation.

    Attributes:
        megabits: rate of each worker's link, in Mbit/s; None: as fast as the machine.
        measured, simulated: seconds per step.
    """

    workers: int
    batch: int
    megabits: float | None
    measured: float
    simulated: float

    def __post_init__(self):
        require.numbers("A setting's workers", self.workers, 1, whole=True, single=True)
        require.numbers("A setting's measured seconds", self.measured, 0, above=True, single=True)
        require.attributes("A setting", self, batch=0, simulated=0)

    @property
    def error(self) -> float:
        return self.simulated / self.measured - 1


@dataclass(frozen=True)
class Fitted(Plain):
    """A model on workers that share this machine's cores."""

    model: Model
    host: Host

    def cluster(self, megabits: float | None) -> Cluster:
        if megabits is None:
            link, host = Link(0.0, 0.0), replace(self.host, byte=0.0)
        else:
            wire = Link.of(megabits=megabits, latency=0.0)
            link, host = replace(wire, per_byte=FRAME * wire.per_byte), self.host
        return Cluster(MANY, link, link, host)

    def seconds(self, workers: int, batch: int, megabits: float | None) -> float:
        return float(step(self.model, self.cluster(megabits), workers, batch).seconds)

    def settings(self, measured: Sequence[Measured]) -> list[Setting]:
        """Each of these `Measured` beside its simulated seconds."""
        return settings(measured, lambda m: self.seconds(m.workers, m.batch, m.megabits))


def settings(measured: Sequence[Measured], seconds: Callable[[Measured], float]) -> list[Setting]:
    """Each of these `Measured` beside the seconds that a model predicts."""
    return [Setting(m.workers, m.batch, m.megabits, float(np.median(m.seconds)), seconds(m)) for m in measured]


@dataclass(frozen=True)
class Errors(Plain):
    """Relative errors of several settings.

    Attributes:
        worst: the largest absolute error.
        bias: the mean error; below 0, the predicted times are too short.
        spread: the standard deviation of the errors.
    """

    worst: float
    bias: float
    spread: float

    @classmethod
    def of(cls, settings: Sequence[Setting]) -> Errors:
        errors = np.array([each.error for each in settings])
        return cls(float(np.max(np.abs(errors))), float(np.mean(errors)), float(np.std(errors)))


def fit(measured: Sequence[Measured], alone: Sequence[Measured], cores: float) -> Fitted:
    """Fits the constants with the least squared relative error over the settings' medians, none below 0.

    Args:
        measured: the bench's `Measured` of several workers. A single batch size or number of workers can't separate the
            constants.
        alone: those of one process.
        cores: number of cores of the machine.
    Raises:
        CtrlabError: the settings are not of one model and one number of threads, or fewer than the constants; or a number is
            invalid.
    """
    _require(measured, alone)
    model = _model(measured, alone)
    host = Host(cores, threads=measured[0].threads, computes=True)
    seconds = np.array([np.median(m.seconds) for m in measured])

    def simulated(fitted: Fitted) -> np.ndarray:
        return np.array([fitted.seconds(m.workers, m.batch, m.megabits) for m in measured])

    found = []
    for byte in BYTES:
        base = Fitted(model, replace(host, byte=float(byte)))
        # A step is a sum in which each constant comes once, so that a second more of one says its whole effect.
        ones = (
            Fitted(replace(model, sharing=1.0), base.host),
            Fitted(replace(model, per_id=1.0), base.host),
            Fitted(model, replace(base.host, message=1.0)),
        )
        without = simulated(base)
        columns = np.stack([simulated(one) - without for one in ones], 1) / seconds[:, None]
        (sharing, per_id, message), error = nnls(columns, 1 - without / seconds)
        of = replace(model, sharing=float(sharing), per_id=float(per_id))
        found.append((float(error), len(found), Fitted(of, replace(base.host, message=float(message)))))
    return min(found, key=lambda each: each[:2])[2]


def _require(measured: Sequence[Measured], alone: Sequence[Measured]) -> None:
    models, threads = {m.model for m in (*measured, *alone)}, {m.threads for m in measured}
    if len(models) != 1 or len(measured) < 4 or len(threads) != 1:
        raise CtrlabError(
            "Constants are fitted to at least four settings of one model and one number of threads; received "
            f"{len(measured)} of {', '.join(sorted(models)) or 'none'}, with threads {sorted(threads)}."
        )
    require.numbers("The workers of a setting that constants are fitted to", [m.workers for m in measured], 2, whole=True)
    _require_seconds((*measured, *alone))
    require.numbers("Distinct ids of a worker's part", [m.least.distinct for m in (*measured, *alone)], 0, above=True)


def _require_seconds(measured: Sequence[Measured]) -> None:
    for m in measured:
        what = f"Seconds of {m.workers} workers with {m.batch} examples"
        require.numbers(what, m.seconds, 0, above=True)
        if not len(m.seconds):
            raise CtrlabError(f"{what} must be at least one number; received none.")


def _model(measured: Sequence[Measured], alone: Sequence[Measured]) -> Model:
    fixed, per_example = line_through({m.batch: m.seconds for m in alone})
    counts = sorted({m.batch: m.least.distinct for m in alone}.items())
    dense = np.mean([m.least.dense * m.workers / (2 * (m.workers - 1)) for m in measured]) / FLOAT
    id_bytes, row_bytes = (
        float(np.mean([getattr(m.least, of) * m.workers / (m.workers - 1) / m.least.distinct for m in measured]))
        for of in ("keys", "rows")
    )
    several = {"reductions": measured[0].reduces, "exchanges": measured[0].exchanges, "padding": PADDING}
    distinct = Distinct(*(tuple(map(float, each)) for each in zip(*counts)))
    return Model(float(dense), fixed, per_example, dim=row_bytes / FLOAT, id_bytes=id_bytes, distinct=distinct, **several)


def line_through(seconds: dict[int, Sequence[float]]) -> tuple[float, float]:
    """(fixed, per_example) of the line with the least squared relative error through the median times, none below 0.

    Args:
        seconds: {examples: measured seconds of such steps}.
    Raises:
        CtrlabError: there are fewer than two numbers of examples, one has no times, or a number is not finite and above 0.
    """
    if len(seconds) < 2 or not all(map(np.size, seconds.values())):
        raise CtrlabError(
            "A line is fitted to times of at least two batch sizes; received "
            f"{ {examples: np.size(times) for examples, times in seconds.items()} } times by examples."
        )
    sizes = require.numbers("A line's batch sizes", list(seconds), 0, above=True)
    times = {size: require.numbers(f"Seconds of {size} examples", of, 0, above=True) for size, of in seconds.items()}
    medians = np.array([np.median(of) for of in times.values()])
    columns = np.stack([np.ones(len(seconds)), sizes], 1) / medians[:, None]
    (fixed, per_example), *_ = np.linalg.lstsq(columns, np.ones(len(seconds)), rcond=None)
    if fixed < 0:
        fixed, per_example = 0.0, columns[:, 1].sum() / np.sum(columns[:, 1] ** 2)
    elif per_example < 0:
        fixed, per_example = columns[:, 0].sum() / np.sum(columns[:, 0] ** 2), 0.0
    return float(fixed), float(per_example)


@dataclass(frozen=True)
class Checked(Plain):
    """Constants that were fitted to some settings, and their predictions for others; beside them the null model.

    Attributes:
        fitted: the constants.
        used: the settings to which they were fitted.
        held_out: the other settings.
        null: the null model, fitted to the same settings.
        null_used, null_held_out: the same settings in the same order, with the null model's predictions.
    """

    fitted: Fitted
    used: tuple[Setting, ...]
    held_out: tuple[Setting, ...]
    null: Null
    null_used: tuple[Setting, ...]
    null_held_out: tuple[Setting, ...]

    @property
    def errors(self) -> Errors:
        """The errors on the settings that were held out."""
        return Errors.of(self.held_out)

    @property
    def null_errors(self) -> Errors:
        return Errors.of(self.null_held_out)


def check(
    measured: Sequence[Measured], alone: Sequence[Measured], others: Sequence[Measured], held_rate: float, cores: float
) -> Checked:
    """Fits to the settings whose links do not have this rate, and checks on those that do, and on `others`.

    Args:
        measured, alone: settings of one record.
        others: settings of another record, all held out.
    Raises:
        CtrlabError: the rate is invalid; nothing is held out, or steps of another model are; or as in `fit`.
    """
    require.numbers("The rate of links that are held out", held_rate, 0, above=True, single=True)
    used = [m for m in measured if m.megabits != held_rate]
    held_out = [*(m for m in measured if m.megabits == held_rate), *others]
    if not held_out:
        raise CtrlabError(
            f"A check holds out settings with links of {held_rate:g} Mbit/s or of another record; there is none. Received the "
            f"rates {', '.join(sorted({str(m.megabits) for m in measured})) or 'of no setting'}."
        )
    fitted = fit(used, alone, cores)
    _require_seconds(held_out)
    if others_models := sorted({m.model for m in held_out} - {used[0].model}):
        raise CtrlabError(
            f"What is held out must be steps of the model that constants are fitted to, {used[0].model}; received steps of "
            f"{', '.join(others_models)}."
        )
    null = Null(fitted.model.fixed, fitted.model.per_example, replace(fitted.host, message=0.0, byte=0.0)).fit(used)
    found = [tuple(settings(of, null.seconds)) for of in (used, held_out)]
    return Checked(fitted, tuple(fitted.settings(used)), tuple(fitted.settings(held_out)), null, *found)

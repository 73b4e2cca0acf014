"""The result of a race: plain numbers in frozen dataclasses and in versioned JSON. Scores are computed from them."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from ctrlab.errors import BadData
from ctrlab.paths import write_atomically
from ctrlab.plain import Plain
from ctrlab.profiling.work import Ceilings, Work, bound

VERSION = 3


@dataclass(frozen=True)
class Variant:
    """One model trained with one set of optimizations.

    Attributes:
        optimizations: the set as given, e.g. "all".
        rungs: the rungs in this set that touch this model.
        seconds: training seconds of each block. They include reading, but not warm-up and tracing. The first steps of a block are
            not timed; they count with the average time of the others.
        losses: the loss of each step.
        auc, log_loss, gauc, calibration: by label, on held-out rows after the last step; no GAUC without a user column.
        error: why the variant did not finish; empty if it did.
    """

    optimizations: str
    rungs: tuple[str, ...] = ()
    seconds: tuple[float, ...] = ()
    losses: tuple[float, ...] = ()
    auc: dict[str, float] = dataclasses.field(default_factory=dict)
    log_loss: dict[str, float] = dataclasses.field(default_factory=dict)
    gauc: dict[str, float] = dataclasses.field(default_factory=dict)
    calibration: dict[str, float] = dataclasses.field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class ModelRace:
    """All variants of one model, trained in alternating blocks on the same batches.

    Attributes:
        rows: training rows of the data set.
        blocks: number of steps in each block, parallel to `Variant.seconds`.
        work: the least work of one step. ceilings: the highest that were measured on this machine until the race's last sitting.
        seed_auc: the baseline's AUC by label, one per seed; the first is that of the timed run.
        device: the workers' machine, see `ctrlab.profiling.machine`.
        ceiling: the AUC of the model that drew the labels, by label; None for real data.
        bar: the contest's own AUC bar, if it applies.
    """

    model: str
    data_set: str
    rows: int
    evaluated_rows: int
    batch_size: int
    blocks: tuple[int, ...]
    work: Work
    ceilings: Ceilings
    variants: tuple[Variant, ...]
    seed_auc: dict[str, tuple[float, ...]]
    device: str
    ceiling: dict[str, float] | None = None
    bar: float | None = None

    @property
    def floor(self) -> float:
        """The seconds that one step's arithmetic and memory traffic take at the ceilings."""
        return bound(self.work, self.ceilings)

    @property
    def steps(self) -> int:
        return sum(self.blocks)

    @property
    def complete(self) -> bool:
        return not any(v.error for v in self.variants)

    def variant(self, optimizations: str) -> Variant:
        return next(v for v in self.variants if v.optimizations == optimizations)


@dataclass(frozen=True)
class Settings:
    """The settings that two parts of a race must share to belong together."""

    profile: str
    data: str
    sets: tuple[str, ...]
    versions: dict[str, str]
    machine: str


@dataclass(frozen=True)
class RaceResult(Plain):
    """A race, finished or not: `models` holds the finished models, `asked` all requested ones."""

    settings: Settings
    asked: tuple[str, ...]
    models: tuple[ModelRace, ...] = ()
    started: str = ""
    version: int = VERSION

    @property
    def complete(self) -> bool:
        return set(self.asked) == {m.model for m in self.models if m.complete}

    def with_model(self, entry: ModelRace) -> RaceResult:
        """The result with `entry` added, or replacing the model's earlier entry, in the order of the request."""
        entries = {m.model: m for m in self.models} | {entry.model: entry}
        return dataclasses.replace(self, models=tuple(entries[m] for m in self.asked if m in entries))

    def save(self, path: Path) -> None:
        """Writes JSON atomically."""
        write_atomically(path, json.dumps(self.to_json(), indent=1) + "\n")


def load(path: Path) -> RaceResult:
    """The result in `path`.

    Raises:
        BadData: there is no such file, or it is not a race result of this version.
    """
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        raise BadData(f"A race result must be a file; {path} does not exist.") from None
    except (OSError, ValueError) as problem:
        raise BadData(f"A race result must be JSON; {path} is not ({problem}).") from None
    found = content.get("version") if isinstance(content, dict) else None
    if found != VERSION:
        raise BadData(f"A race result must have version {VERSION}; {path} has {found!r}. Run the race again without --resume.")
    try:
        return RaceResult.from_json(content)
    except BadData as problem:
        raise BadData(f"{path} has version {VERSION}, but: {problem} Run the race without --resume.") from None

"""The description of a training run by plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ctrlab.embedding.choices import NAMES, Variable
from ctrlab.embedding.choices import Choice as Embedding
from ctrlab.errors import choose
from ctrlab.models import MODELS, Sizes
from ctrlab.training.threads import Setting


@dataclass(frozen=True)
class Saving:
    """Where and when checkpoints are saved: see `Checkpoints`. If `every` is None: only after the last step."""

    folder: Path
    every: int | None = None
    full_every: int = 1
    resume: bool = False


@dataclass(frozen=True)
class Spec:
    """Describes a training run.

    Attributes:
        model: a model's name, as in `build`.
        optimizations: rungs of all levels.
        data_set: a data set's name; None: the model's own data set, with the table sizes of the contest.
        source: generated rows or the real ones.
        format: file format, unless a rung chooses another.
        profile: sets the number of generated rows; None: `CTRLAB_PROFILE`'s.
        embedding: the kind of embedding for the large tables, as `build` takes it.
        size: the model's numbers, optimizer and batch size among them, as `build` takes it.
        device: "cpu", "gpu" or "auto", as `build` takes it; several workers train on the CPU.
        seed: determines the initial weights and the order of the rows.
        epochs: passes over the training rows; -1: no end.
        setting: threads and buffers; None: as the rungs choose.
        saving: None for no checkpoints.
        follow: train on the Parquet files that appear in this folder, in place of a data set: see `Run.follow`.
        validation: the fraction of the training rows, the last ones of the files, that are not trained on; None: train on all.
            After each epoch the model is evaluated on them. Only Parquet files.
        patience: with validation, the training ends after this many epochs in a row without a gain of AUC, in its best state.

    >>> spec = Spec("deepfm", "all", epochs=3)
    """

    model: str
    optimizations: str | Sequence[str] = "none"
    data_set: str | None = None
    source: Literal["generated", "real"] = "generated"
    format: str = "csv"
    profile: str | None = None
    embedding: str | Embedding | Mapping[str, str | Embedding] = "hashed"
    size: str | Sizes = "contest"
    device: str = "auto"
    seed: int = 2021
    epochs: int = 1
    setting: Setting | None = None
    saving: Saving | None = None
    follow: Path | None = None
    validation: float | None = None
    patience: int = 2

    @property
    def in_words(self) -> dict[str, str]:
        """The settings that must not change when a run is resumed from its checkpoints, besides model, files and batch size. The
        place where rows are stored may change."""
        named = self.embedding if isinstance(self.embedding, Mapping) else {"": self.embedding}
        choices = [f"{name} {_of_choice(choice)}".strip() for name, choice in sorted(named.items())]
        presets = MODELS[choose("model", self.model, MODELS)].presets
        sizes = self.size if isinstance(self.size, Sizes) else presets[choose("size", self.size, presets)]
        kept = "contest" if sizes == presets["contest"] else str(sizes)
        ends = "none" if self.validation is None else f"the last {self.validation:g}, patience {self.patience}"
        return {"seed": str(self.seed), "embedding": "; ".join(choices), "sizes": kept, "validation": ends}


def _of_choice(choice: str | Embedding) -> str:
    choice = NAMES[choose("embedding", choice, NAMES)] if isinstance(choice, str) else choice
    rules = (choice.options.admission, choice.options.eviction) if isinstance(choice, Variable) else ()
    return ", ".join([type(choice).__name__, *(str(rule) for rule in rules if rule)])

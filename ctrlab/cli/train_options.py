"""What the options of `ctrlab train` say: the kind of embedding, the model's numbers, the share of validation rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ctrlab.errors import CtrlabError, choose

if TYPE_CHECKING:
    from ctrlab.models import Sizes


def sizes_of(model: str, size: str, units: Sequence[str], numbers: dict, hyper: dict) -> Sizes:
    """The numbers of a preset with what is given in place of single ones.

    Args:
        units: of parts, "deep=128,64"; or of the first part, "128,64".
        numbers: dim, dropout, l2, batch_norm; hyper: the fields of `Hyper`. None leaves a number as it is.
    Raises:
        UnknownName: no such preset, part or optimizer. CtrlabError: a number out of its range, or text that is none; another
            optimizer without its learning rate.
    """
    from ctrlab.models import MODELS
    from ctrlab.training.optimizers import KINDS

    presets = MODELS[model].presets
    preset = presets[choose("size", size, presets)]
    given = {name: value for name, value in hyper.items() if value is not None}
    optimizer, own = given.get("optimizer", preset.hyper.optimizer), preset.hyper.optimizer
    if choose("optimizer", optimizer, KINDS) != own and "learning_rate" not in given:
        raise CtrlabError(
            f"A learning rate suits one optimizer; received --optimizer {optimizer} without --learning-rate, and the preset's "
            f"{preset.hyper.learning_rate:g} is for {own}: give both."
        )
    if given.get("clip_norm") == 0:
        given["clip_norm"] = None
    layers = {part: layers for part, layers in (_units_of(text, next(iter(preset.units))) for text in units)}
    return preset.with_numbers(units=layers or None, hyper=dataclasses.replace(preset.hyper, **given), **numbers)


def _units_of(text: str, main: str) -> tuple[str, tuple[int, ...]]:
    part, equals, layers = text.rpartition("=")
    try:
        return part.strip() if equals else main, tuple(int(n) for n in layers.split(","))
    except ValueError:
        raise CtrlabError(f"--units takes a part and its layers, such as {main}=128,64; received {text!r}.") from None


def share_of(text: str) -> float:
    """A share of the rows, "10%" or "0.1"."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise CtrlabError(f"--validation takes a share of the rows, such as 10% or 0.1; received {text!r}.") from None


def choice_of(embedding: str, admission: int | None, evict_after: int | None, storage: Path | None, memory_rows: int | None):
    """What the options say of embeddings, as `ctrlab.build` takes it.

    Raises:
        CtrlabError: options of variables for another embedding; a storage without a size of the memory above it, or one alone.
    """
    from ctrlab.embedding.choices import NAMES, Variable
    from ctrlab.embedding.options import CounterFilter, GlobalStepEviction, Storage

    if embedding != "variable":
        if admission or evict_after or storage or memory_rows:
            raise CtrlabError(
                "--admission, --evict-after, --storage and --memory-rows are for rows that come and go; add --embedding variable."
            )
        return NAMES[embedding]
    if (storage is None) != (memory_rows is None):
        raise CtrlabError("--storage and --memory-rows go together: the rows beyond so many sink to that folder; give both.")
    options = dataclasses.replace(
        Variable().options,
        admission=CounterFilter(admission) if admission else None,
        eviction=GlobalStepEviction(evict_after) if evict_after else None,
        storage=Storage(str(storage), memory_rows) if storage else None,
    )
    return Variable(options)

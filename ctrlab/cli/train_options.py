"""Parses the options of `ctrlab train`, and checks that they fit together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ctrlab import optimizations, profiles
from ctrlab.cli.app import duration, import_tensorflow
from ctrlab.errors import CtrlabError, choose

if TYPE_CHECKING:
    from ctrlab.embedding.choices import Choice
    from ctrlab.models import Sizes


@dataclasses.dataclass(frozen=True)
class Checked:
    """The parsed values of options.

    Attributes:
        seconds: time between publications.
        idle: seconds without a new file after which a followed training ends.
        validation: a fraction of the training rows, or None.
        embedding, size: as `ctrlab.build` takes them.
    """

    seconds: float
    idle: float
    validation: float | None
    embedding: Choice
    size: str | Sizes


def checked(given: Mapping[str, Any], workers: int) -> Checked:
    """Checks everything that can be checked without data, folders and a model. TensorFlow is imported only if numbers of the
    model are given.

    Args:
        given: the arguments of `ctrlab train`, by name.
        workers: how many processes train together.
    Raises:
        CtrlabError, UnknownName: options don't fit together, or one has no effect.
    """
    asked = SimpleNamespace(**given)
    optimizations.resolve(asked.optimizations)
    if asked.profile:
        profiles.current(asked.profile)
    _require_companions(asked)
    if workers > 1:
        _require_shareable(asked)
    return Checked(
        seconds=duration("--publish-every", asked.publish_every),
        idle=duration("--idle", asked.idle) if asked.idle else math.inf,
        validation=share_of(asked.validation) if asked.validation else None,
        embedding=choice_of(asked.embedding, asked.admission, asked.evict_after, asked.storage, asked.memory_rows),
        size=_size_of(given),
    )


def _require_companions(asked: SimpleNamespace) -> None:
    if asked.checkpoint is None and (asked.every or asked.full_every or asked.resume):
        raise CtrlabError("--every, --full-every and --resume are about checkpoints; give their folder with --checkpoint.")
    if asked.full_every and asked.embedding != "variable":
        raise CtrlabError(
            "--full-every spares the rows that did not change, which only variables know; add --embedding variable."
        )
    if asked.evict_after and asked.checkpoint is None:
        raise CtrlabError("--evict-after lets rows go at each save; give a folder for checkpoints with --checkpoint.")
    if asked.save and asked.save.suffix != ".keras":
        raise CtrlabError(f"A model is saved as a .keras file; got {asked.save}.")
    if asked.share_users and not asked.publish:
        raise CtrlabError("--share-users is about published versions; name their folder with --publish.")
    if asked.follow and (asked.epochs != 1 or asked.data != "generated"):
        raise CtrlabError(
            "--follow trains on each row of its folder once, in place of a data set; leave out --epochs and --data."
        )
    if asked.idle and not asked.follow:
        raise CtrlabError("--idle says when a run that follows a folder ends; name the folder with --follow.")
    if asked.validation and asked.follow:
        raise CtrlabError("--validation holds out rows of a data set; leave it out with --follow.")


def _require_shareable(asked: SimpleNamespace) -> None:
    if asked.save:
        raise CtrlabError(
            "--save takes a whole model, and each of several workers has a shard of it: give them --checkpoint, and then "
            "--workers 1 --resume with --save."
        )
    if asked.follow or asked.validation:
        raise CtrlabError("Several workers train on whole data sets: leave out --follow and --validation, or train in one.")


def _size_of(given: Mapping[str, Any]) -> str | Sizes:
    numbers = {name: given[name] for name in ("dim", "dropout", "l2", "batch_norm")}
    hyper = {name: given[name] for name in ("optimizer", "learning_rate", "clip_norm", "batch_size")}
    if not given["units"] and all(number is None for number in (*numbers.values(), *hyper.values())):
        return given["size"]
    import_tensorflow(gpu=True)  # `ctrlab train` hides one that it does not take
    return sizes_of(given["model"], given["size"], given["units"] or (), numbers, hyper)


def sizes_of(model: str, size: str, units: Sequence[str], numbers: dict, hyper: dict) -> Sizes:
    """The numbers of a preset, some of them replaced by the given ones.

    Args:
        units: units of parts, "deep=128,64"; or of the first part, "128,64".
        numbers: dim, dropout, l2, batch_norm; hyper: the fields of `Hyper`. None leaves a number as it is.
    Raises:
        UnknownName: no such preset, part or optimizer. CtrlabError: a number is out of its range, or a text is not a number;
            another optimizer is given without its learning rate.
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
    """Parses a fraction of the rows, "10%" or "0.1"."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise CtrlabError(f"--validation takes a share of the rows, such as 10% or 0.1; received {text!r}.") from None


def choice_of(embedding: str, admission: int | None, evict_after: int | None, storage: Path | None, memory_rows: int | None):
    """The argument `embedding` of `ctrlab.build` that the options describe.

    Raises:
        CtrlabError: options of variables are given for another embedding; a storage is given without the size of the memory above
            it, or the reverse.
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

"""Saves a trained model as a .keras file; and describes a model, so that it can be made again for its checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import keras

from ctrlab.embedding import choices
from ctrlab.errors import BadData, CtrlabError
from ctrlab.models import MODELS, Sizes, build
from ctrlab.models.base import CTRModel
from ctrlab.paths import replacing
from ctrlab.schema import Schema


def save_model(model: keras.Model, path: Path) -> None:
    """Writes the whole file or none of it.

    Args:
        path: ends in ".keras".
    """
    if isinstance(model, CTRModel):
        model.save(path)
        return
    with replacing(path, ".keras") as part:
        model.save(part)


def description(model: keras.Model) -> dict:
    """A JSON-compatible description of one of the six models, which `from_description` takes; {} for any other model.

    Checkpoints contain it. Optimizations are left out: a checkpoint fits a model with any of them.
    """
    kinds = [name for name, kind in MODELS.items() if type(model) is kind]
    if not kinds:
        return {}
    config = model.get_config()
    return {"kind": kinds[0]} | {part: config[part] for part in ("schema", "embedding", "seed", "sizes")}


def from_description(found: Mapping, optimizations: str | Iterable[str] = "none", storage: str | None = None) -> CTRModel:
    """The described model with new weights.

    Args:
        optimizations: of level "model".
        storage: a folder for the rows of tables that had storage in training; None: all rows are in memory.
    Raises:
        BadData: the argument was not made by `description`. CtrlabError: as in `build`.
    """
    try:
        embedding = {table: _stored(choices.from_config(choice), storage) for table, choice in found["embedding"].items()}
        size = Sizes.from_config(found["sizes"]) if "sizes" in found else "contest"  # earlier versions knew no other
        return build(found["kind"], Schema.from_config(found["schema"]), optimizations, found["seed"], embedding, size=size)
    except CtrlabError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise BadData(
            f"A model is described by kind, schema, embedding, seed and sizes; this can't be read: {problem!r}."
        ) from None


def _stored(choice: choices.Choice, storage: str | None) -> choices.Choice:
    if not isinstance(choice, choices.Variable) or choice.options.storage is None:
        return choice
    elsewhere = replace(choice.options.storage, path=storage) if storage else None
    return replace(choice, options=replace(choice.options, storage=elsewhere))

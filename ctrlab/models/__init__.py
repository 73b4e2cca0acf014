"""The six models, and `build`, the one way to make them. Each model is a class in the module of the same name."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping

from ctrlab.data import schema as schema_of
from ctrlab.embedding.choices import Choice
from ctrlab.errors import choose
from ctrlab.features import Schema
from ctrlab.model_names import DATA_SETS
from ctrlab.models.base import CTRModel, Hyper


def _class_of(name: str) -> type[CTRModel]:
    module = importlib.import_module(f"{__name__}.{name}")
    own = (value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__)
    [model] = (kind for kind in own if issubclass(kind, CTRModel))
    return model


MODELS: dict[str, type[CTRModel]] = {name: _class_of(name) for name in DATA_SETS}


def build(
    model: str,
    schema: Schema | str | None = None,
    optimizations: str | Iterable[str] = "none",
    seed: int = 2021,
    embedding: str | Choice | Mapping[str, str | Choice] = "hashed",
) -> CTRModel:
    """A new model with initial weights drawn from `seed`.

    Args:
        model: one of `MODELS`.
        schema: the columns, or the name of a data set; default: the model's own data set at the contest's sizes.
        optimizations: of level "model": names, "none", "all" or "all+results".
        embedding: the kind of embedding for tables: "hashed", "multihash", "variable" or a choice with options, for all large
            tables of hashed ids or by column or table; see `ctrlab.embedding.choices`. The weights of linear parts are in
            embedding variables if the embeddings of their ids are, and hashed otherwise.
    Raises:
        UnknownName: no such model, data set, optimization or embedding. CtrlabError: the model cannot use this schema.

    >>> model = build("deepfm", optimizations="all")
    """
    maker = MODELS[choose("model", model, MODELS)]
    if schema is None:
        schema = schema_of(DATA_SETS[model])
        if maker.most_buckets:
            schema = schema.with_buckets(maker.most_buckets)
    elif isinstance(schema, str):
        schema = schema_of(schema)
    return maker(schema, optimizations, seed, embedding)


__all__ = ["MODELS", "CTRModel", "Hyper", "build"]

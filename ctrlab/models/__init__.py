"""The six models and the one way to make them: `build`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ctrlab.data import schema as schema_of
from ctrlab.embedding.choices import Choice
from ctrlab.errors import choose
from ctrlab.features import Schema
from ctrlab.models.base import CTRModel, Hyper
from ctrlab.models.deepfm import DeepFM
from ctrlab.models.dien import DIEN
from ctrlab.models.din import DIN
from ctrlab.models.dlrm import DLRM
from ctrlab.models.mmoe import MMoE
from ctrlab.models.wdl import WDL

MODELS: dict[str, type[CTRModel]] = {"wdl": WDL, "deepfm": DeepFM, "dlrm": DLRM, "din": DIN, "dien": DIEN, "mmoe": MMoE}


def build(
    model: str,
    schema: Schema | str | None = None,
    optimizations: str | Iterable[str] = "none",
    seed: int = 2021,
    embedding: str | Choice | Mapping[str, str | Choice] = "hashed",
) -> CTRModel:
    """A new model with its weights drawn from `seed`.

    Args:
        model: "wdl", "deepfm", "dlrm", "din", "dien" or "mmoe".
        schema: the columns, or the name of a data set; by default the model's own data set at the contest's sizes.
        optimizations: of level "model": names, "none", "all" or "all+results".
        embedding: how tables keep their embeddings: "hashed", "multihash", "variable" or a choice with options, for all large
            tables of hashed ids or by column or table; see `ctrlab.embedding.choices`. The weights of linear parts are in
            embedding variables where the embeddings are, and hashed otherwise.
    Raises:
        UnknownName: no such model, data set, optimization or embedding. CtrlabError: the model cannot use this schema.

    >>> model = build("deepfm", optimizations="all")
    """
    maker = MODELS[choose("model", model, MODELS)]
    if schema is None:
        schema = schema_of(maker.data_set)
        if maker.most_buckets:
            schema = schema.with_buckets(maker.most_buckets)
    elif isinstance(schema, str):
        schema = schema_of(schema)
    return maker(schema, optimizations, seed, embedding)


__all__ = ["MODELS", "CTRModel", "Hyper", "build"]

"""The six models, and `build`, the one way to make them. Each model is a class in the module of the same name. The table shows
which columns a model needs, besides a label, and what it does with them:

    model       needs                                   id columns                          numbers             labels
    wdl         an id column                            all to the deep tower               both parts          a logit each
                                                        those of `wide` to the linear part
    deepfm      an id column                            all to the deep tower and pairwise  deep tower, linear  a logit each
                                                        those of `wide` to the linear part
    dlrm        an id column                            pairwise                            one vector of all   a logit each
    mmoe        an id column                            all to experts and gates            experts, gates      a tower each
    din         a Sequence with `of`, in its table      the history attends to its target   head                a logit each
                                                        others to the head
    dien        as din; better with a Sequence of       as din; negatives train an          head                a logit each
                `negative_of` for each history          auxiliary net

A Categorical gives its embedding, a MultiHot or a Sequence the mean of its ids' embeddings, without ids zeros; in DIN and DIEN
a history with `of` gives its sum, and each event its embedding. All numbers, NumericLists by their mean, are one vector.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence

from ctrlab.data import schema as schema_of
from ctrlab.embedding.choices import Choice
from ctrlab.embedding.options import require_whole
from ctrlab.errors import CtrlabError, choose
from ctrlab.model_names import DATA_SETS
from ctrlab.models.base import CTRModel
from ctrlab.models.sizes import Hyper, Sizes
from ctrlab.schema import Schema


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
    *,
    device: str = "auto",
    size: str | Sizes = "contest",
    dim: int | None = None,
    units: Mapping[str, Sequence[int]] | Sequence[int] | None = None,
    dropout: float | None = None,
    l2: float | None = None,
    batch_norm: bool | None = None,
) -> CTRModel:
    """A new model with initial weights drawn from `seed`.

    Args:
        model: one of `MODELS`.
        schema: the columns, or the name of a data set; default: the model's own data set at the contest's sizes.
        seed: in [0, 2^32).
        optimizations: of level "model": names, "none", "all" or "all+results".
        embedding: the kind of embedding for tables: "hashed", "multihash", "variable" or a choice with options, for all large
            tables of hashed ids or by column or table; see `ctrlab.embedding.choices`, whose `reasons` says which tables are
            left hashed, and why. The weights of linear parts are in embedding variables if the embeddings of their ids are, and
            hashed otherwise.
        device: "cpu", "gpu", or "auto": the GPU if TensorFlow sees one and all of the model can be there; see `ctrlab.devices`.
        size: the model's numbers: "contest"; "small" for your own data of up to some million rows; "few_rows" for some thousand
            (not DIN and DIEN); or `Sizes`. The arguments below replace single numbers of it; None leaves a number as it is.
        dim: D, the numbers per embedding.
        units: {part: units of its hidden layers}, for the parts in `MODELS[model].presets["contest"].units`; or the layers of the
            first part, (64, 32).
        dropout: in [0, 1), after each hidden layer of the towers, in training.
        l2: the factor of the squared weights in the training loss; see `ctrlab.models.regularization`.
        batch_norm: batch normalization after the hidden layers of WDL's deep tower, DeepFM's deep and top, DLRM's bottom, DIN's
            and DIEN's head and MMoE's towers.
    Raises:
        UnknownName: no such model, data set, optimization, embedding, device, size or part. CtrlabError: the model cannot use
            this schema; a number out of its range; a GPU was asked for and TensorFlow sees none.

    >>> model = build("deepfm", optimizations="all")
    >>> model = build("deepfm", "criteo", size="small", units={"deep": (128, 64)}, dropout=0.2)
    """
    maker = MODELS[choose("model", model, MODELS)]
    require_whole("A seed", seed, 0, 32)
    if schema is None:
        schema = schema_of(DATA_SETS[model])
        if maker.most_buckets:
            schema = schema.with_buckets(maker.most_buckets)
    elif isinstance(schema, str):
        schema = schema_of(schema)
    elif not isinstance(schema, Schema):
        raise CtrlabError(f"A model is built for a Schema, or for the name of a data set; received {schema!r}.")
    sizes = size if isinstance(size, Sizes) else maker.presets[choose("size", size, maker.presets)]
    sizes = sizes.with_numbers(dim=dim, units=units, dropout=dropout, l2=l2, batch_norm=batch_norm)
    return maker.on_device(device, schema=schema, optimizations=optimizations, seed=seed, embedding=embedding, sizes=sizes)


__all__ = ["MODELS", "CTRModel", "Hyper", "Sizes", "build"]

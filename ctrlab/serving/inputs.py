"""The inputs of a served model: flat tensors named by column.

    column                                        [B]     one value per example
    column/values, column/row_splits              [N], int64 [B + 1]: example b has values[row_splits[b] : row_splits[b + 1]]

From raw text a column of ids is text, as in a file. From ids it has the integers that `ctrlab.data.encode` makes of the text.
An empty word, or an empty list of numbers, gets the column's default in the graph: see `filled`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import tensorflow as tf

from ctrlab.data.tfrecord import fill_empty
from ctrlab.errors import CtrlabError, choose
from ctrlab.features import Categorical, IdColumn, NumericList, Schema, entry_dtype
from ctrlab.models.base import CTRModel
from ctrlab.plain import Plain

if TYPE_CHECKING:
    from ctrlab.serving.own import OwnModel

Features = Mapping[str, tf.Tensor | tf.RaggedTensor]
Kind = Literal["text", "ids"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Input(Plain):
    """A column of a request.

    Attributes:
        dtype: of its values: "float32", "string", "int32" or "int64".
        ragged: whether an example has any number of values.
        encoding: how text becomes an id: "hash" is FarmHash64 modulo `buckets`, "vocabulary" the place among its words,
            "identity" the number itself; "" for numbers.
    """

    column: str
    dtype: str
    ragged: bool
    encoding: str = ""
    buckets: int = 0

    @property
    def specs(self) -> dict[str, tf.TensorSpec]:
        """{name: type} of its tensors."""
        if not self.ragged:
            return {self.column: tf.TensorSpec([None], self.dtype)}
        return {
            f"{self.column}/values": tf.TensorSpec([None], self.dtype),
            f"{self.column}/row_splits": tf.TensorSpec([None], tf.int64),
        }


def inputs_of(model: CTRModel | OwnModel, kind: Kind) -> tuple[Input, ...]:
    """What a request to this model has, in the order of the schema; an own model has its inputs, of either kind.

    Raises:
        UnknownName: another kind of inputs.
    """
    if not isinstance(model, CTRModel):
        choose("kind of inputs", kind, KINDS)
        return model.inputs_of()
    schema = model.input_schema.encoded() if choose("kind of inputs", kind, KINDS) == "ids" else model.input_schema
    columns = [schema[name] for name in model.input_signature()]
    return tuple(
        Input(
            c.name,
            entry_dtype(c),
            ragged=hasattr(c, "separator"),
            encoding=c.encoding if isinstance(c, IdColumn) else "",
            buckets=c.buckets if isinstance(c, IdColumn) else 0,
        )
        for c in columns
    )


def specs_of(inputs: Sequence[Input]) -> dict[str, tf.TensorSpec]:
    """{name: type} of all tensors of a request."""
    return {name: spec for each in inputs for name, spec in each.specs.items()}


def to_features(
    tensors: Mapping[str, tf.Tensor], inputs: Sequence[Input], *, validate: bool = True
) -> dict[str, tf.Tensor | tf.RaggedTensor]:
    """The features that the model takes.

    Args:
        validate: row splits that are not ascending from 0 to N, and columns of different numbers of rows, fail when the graph
            runs.
    """

    def feature(each: Input):
        found = [tensors[name] for name in each.specs]
        return tf.RaggedTensor.from_row_splits(*found, validate=validate) if each.ragged else found[0]

    features = {each.column: feature(each) for each in inputs}
    if validate:
        rows = [f.nrows() if isinstance(f, tf.RaggedTensor) else tf.size(f, tf.int64) for f in features.values()]
        said = "A request's columns have one number of rows"
        tf.debugging.assert_equal(tf.stack(rows), tf.fill([len(rows)], rows[0]), f"{said}; these differ.")
    return features


def filled(features: Features, schema: Schema) -> dict[str, tf.Tensor | tf.RaggedTensor]:
    """A request's features with the columns' defaults where a word or a list of numbers is empty, as readers fill them.

    Whole numbers stay as they are: none says that an id is missing.
    """
    found = dict(features)
    for column in schema.features:
        values = found.get(column.name)
        if isinstance(column, Categorical) and column.default and values.dtype == tf.string:
            found[column.name] = tf.where(tf.equal(values, ""), column.default, values)
        elif isinstance(column, NumericList):
            numbers = [float(part) for part in column.default.split(column.separator)]
            if any(numbers):  # the mean of an empty list is 0 already
                checked = tf.RaggedTensor.from_row_splits(values.values, values.row_splits)
                found[column.name] = fill_empty(checked, numbers)
    return found


def to_tensors(features: Features, inputs: Sequence[Input], model: CTRModel | OwnModel | None) -> dict[str, tf.Tensor]:
    """The tensors of a request, from the features of a batch as readers yield them.

    Args:
        model: makes ids of text where the inputs are ids and the features are text; None where the inputs are text.
    Raises:
        CtrlabError: a column is missing, is no list where it must be one, or has ids where the inputs are text.
    """
    if model is not None and not isinstance(model, CTRModel):
        features = model.as_columns(features)
    for each in inputs:
        if each.column not in features:
            raise CtrlabError(f"A request has every column of the model; {each.column} is missing.")
        if isinstance(features[each.column], tf.RaggedTensor) != each.ragged:
            is_not = "is no ragged tensor" if each.ragged else "is ragged"
            raise CtrlabError(
                f"Columns of lists are ragged, split already, and no others; {each.column} {is_not}: read with lists='ragged'."
            )
        if each.dtype == "string" and features[each.column].dtype != tf.string:
            raise CtrlabError(
                f"Requests are of text, and {each.column} has {features[each.column].dtype.name}: read files of text, or export "
                "with inputs='ids'."
            )
    encoded = {each.column for each in inputs if each.encoding and each.dtype != "string"}
    text = [model.input_schema[name] for name in encoded if features[name].dtype == tf.string]
    features = dict(features) | (model.encoder.ids(features, text) if text else {})
    tensors: dict[str, tf.Tensor] = {}
    for each in inputs:
        feature = features[each.column]
        if not each.ragged:
            tensors[each.column] = tf.cast(feature, each.dtype) if each.dtype != "string" else feature
            continue
        values, splits = feature.values, tf.cast(feature.row_splits, tf.int64)
        tensors |= dict(zip(each.specs, (tf.cast(values, each.dtype) if each.dtype != "string" else values, splits)))
    return tensors

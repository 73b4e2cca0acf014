"""The inputs of a served model: flat tensors named by column.

    column                                        [B]     one value per example; of an own model also [B, ...]
    column/values, column/row_splits              [N], int64 [B + 1]: example b has values[row_splits[b] : row_splits[b + 1]]

From raw text a column of ids is text, as in a file. From ids it holds the integers that `ctrlab.data.encode` makes from the text.

A missing value becomes the column's default, as in training. In JSON it is null, or its row leaves it out; over any protocol a
request may leave a whole column out. In a tensor it is an empty word, or an empty list: see `filled`. A column without a default
(an id that is a number, an input of an own model) has a value in each row. Numbers are finite: NaN is no missing value. Lists
have no empty words, as in files.

In an export with `share_users` many candidates share a user. Then a request has U rows of the columns that describe the user or
the context, N of the others, and one input more:

    candidates                                    int64 [U], how many candidates each user has; they add up to N

The first `candidates[0]` rows of the other columns are user 0's, and so on; the answers are those to N whole rows.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import tensorflow as tf

from ctrlab.data.tfrecord import fill_empty
from ctrlab.errors import CtrlabError, choose
from ctrlab.models import sharing
from ctrlab.models.base import CTRModel
from ctrlab.plain import Plain
from ctrlab.schema import Categorical, Column, IdColumn, Numeric, NumericList, Schema, entry_dtype

if TYPE_CHECKING:
    from ctrlab.serving.own import OwnModel

Features = Mapping[str, tf.Tensor | tf.RaggedTensor]
Kind = Literal["text", "ids"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Input(Plain):
    """A column of a request.

    Attributes:
        dtype: type of its values: "float32", "string", "int32" or "int64".
        ragged: whether an example has any number of values.
        encoding: how text becomes an id: "hash" is FarmHash64 modulo `buckets`, "vocabulary" the position among its words,
            "identity" the number itself; "" for numbers.
        shape: the shape of a row's value; (): one value. None: any size, the same in all rows of a request.
        default: what a missing value becomes: a number, a word, or a list's values. None: a row without a value is refused.
        role: what it describes, "user", "context" or "candidate", as `Schema.role` says; "count" of `COUNTS`.
    """

    column: str
    dtype: str
    ragged: bool
    encoding: str = ""
    buckets: int = 0
    role: str = "candidate"
    shape: tuple[int | None, ...] = ()
    default: str | int | float | tuple[float, ...] | None = None

    @property
    def per_user(self) -> bool:
        """Whether a request whose candidates share users has one value of this column per user."""
        return self.role in ("user", "context")

    @property
    def specs(self) -> dict[str, tf.TensorSpec]:
        """{name: type} of the column's tensors."""
        if not self.ragged:
            return {self.column: tf.TensorSpec([None, *self.shape], self.dtype)}
        return {
            f"{self.column}/values": tf.TensorSpec([None], self.dtype),
            f"{self.column}/row_splits": tf.TensorSpec([None], tf.int64),
        }


COUNTS = Input("candidates", "int64", ragged=False, role="count")
"""The input with the number of candidates of each user, in requests whose candidates share users."""


def inputs_of(model: CTRModel | OwnModel, kind: Kind, *, share_users: bool = False) -> tuple[Input, ...]:
    """The columns of a request to this model, in the order of the schema. For an own model they are its inputs, with either kind.

    Args:
        share_users: whether candidates share users; then the last input is `COUNTS`.
    Raises:
        UnknownName: another kind of inputs. CtrlabError: users can't be shared.
    """
    if not isinstance(model, CTRModel):
        choose("kind of inputs", kind, KINDS)
        if share_users:
            raise CtrlabError(
                f"Candidates share a user where a schema says which columns are the user's; {model.name} is a Keras model "
                "without a schema: export it without share_users."
            )
        return model.inputs_of()
    schema = model.input_schema.encoded() if choose("kind of inputs", kind, KINDS) == "ids" else model.input_schema
    columns = [schema[name] for name in model.input_signature()]
    inputs = tuple(
        Input(
            c.name,
            entry_dtype(c),
            ragged=hasattr(c, "separator"),
            encoding=c.encoding if isinstance(c, IdColumn) else "",
            buckets=c.buckets if isinstance(c, IdColumn) else 0,
            role=schema.role(c.name),
            default=_default_of(c),
        )
        for c in columns
    )
    return (*_shareable(inputs, schema), COUNTS) if share_users else inputs


def _default_of(column: Column) -> str | int | float | tuple[float, ...] | None:
    """What readers put in place of a missing value: see `ctrlab.data.missing`."""
    if isinstance(column, Numeric):
        return float(column.default)
    if isinstance(column, NumericList):
        return tuple(float(part) for part in column.default.split(column.separator))
    if not isinstance(column, Categorical):
        return ()
    if column.bits:  # no number means a missing id
        return int(column.default) if column.default else None
    return column.default


def _shareable(inputs: tuple[Input, ...], schema: Schema) -> tuple[Input, ...]:
    if len({each.per_user for each in inputs}) < 2:
        missing, cure = (
            ("a column of a candidate", "take the candidates' columns out of user_columns and context_columns")
            if inputs[0].per_user
            else ("a column of the user or the context", "name them in user_columns and context_columns")
        )
        raise CtrlabError(
            f"Candidates share a user where a schema has columns of both; schema {schema.name!r} has none that is {missing}: "
            f"{cure}, or export without share_users."
        )
    if any(each.column == COUNTS.column for each in inputs):
        raise CtrlabError(
            f"An export that shares users has an input {COUNTS.column!r} of its own; schema {schema.name!r} has a column of that "
            "name: give the column another, or export without share_users."
        )
    return inputs


def specs_of(inputs: Sequence[Input]) -> dict[str, tf.TensorSpec]:
    """{name: type} of all tensors of a request."""
    return {name: spec for each in inputs for name, spec in each.specs.items()}


def to_features(
    tensors: Mapping[str, tf.Tensor], inputs: Sequence[Input], *, validate: bool = True
) -> dict[str, tf.Tensor | tf.RaggedTensor]:
    """The features that the model takes. Those of shared users have the form of `ctrlab.models.sharing`.

    Args:
        validate: the graph then fails on row splits that do not ascend from 0 to N, and on columns with different numbers of
            rows. On numbers of candidates that don't add up it always fails.
    """

    def feature(each: Input):
        found = [tensors[name] for name in each.specs]
        return tf.RaggedTensor.from_row_splits(*found, validate=validate) if each.ragged else found[0]

    features = {each.column: feature(each) for each in inputs if each != COUNTS}
    if COUNTS in inputs:
        return _shared(features, tensors[COUNTS.column], inputs, validate)
    if validate:
        rows = [_rows(f) for f in features.values()]
        said = "A request's columns have one number of rows"
        tf.debugging.assert_equal(tf.stack(rows), tf.fill([len(rows)], rows[0]), f"{said}; these differ.")
    return features


def _rows(feature: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
    return feature.nrows() if isinstance(feature, tf.RaggedTensor) else tf.shape(feature, tf.int64)[0]


def _shared(features: Features, candidates: tf.Tensor, inputs: Sequence[Input], validate: bool) -> dict:
    """The features; those of users are wrapped with their users."""
    kinds = [[features[each.column] for each in inputs if each != COUNTS and each.per_user == kind] for kind in (True, False)]
    counted = [[_rows(feature) for feature in (of if validate else of[:1])] for of in kinds]
    users, rows = (of[0] for of in counted)
    given = tf.stack([tf.size(candidates, tf.int64), tf.reduce_sum(candidates), *counted[0], *counted[1]])
    wanted = tf.stack([users, rows, *[users] * len(counted[0]), *[rows] * len(counted[1])])
    good = tf.reduce_all(tf.equal(given, wanted)) & tf.reduce_all(candidates >= 0)
    said = (
        "A request has a row of the user's and the context's columns for each number of candidates, 0 or more, and of the others "
        "as many as these add up to; this one has not."
    )
    checked = tf.raw_ops.Assert(condition=good, data=[said])  # not tf.debugging's, which is a branch and costs more
    with tf.control_dependencies([checked]):  # else an op that meets the odd counts first says so in its own words
        of = sharing.Users.of(tf.identity(candidates), rows)
    return {
        each.column: sharing.wrapped(features[each.column], of if each.per_user else None) for each in inputs if each != COUNTS
    }


def filled(features: Features, schema: Schema) -> dict[str, tf.Tensor | tf.RaggedTensor]:
    """A request's features, with the columns' defaults in place of empty words and empty lists of numbers, as readers fill them.
    Whole numbers are unchanged, because no number means a missing id.

    Raises:
        InvalidArgumentError: a list has an empty word.
    """
    found = dict(features)
    _require_words({c.name: sharing.bare(found[c.name]) for c in schema.features if hasattr(c, "separator") and c.name in found})
    for column in schema.features:
        values = found.get(column.name)
        if isinstance(column, Categorical) and column.default and sharing.bare(values).dtype == tf.string:
            found[column.name] = sharing.rowwise(functools.partial(_with_default, column.default), values)
        elif isinstance(column, NumericList):
            numbers = _default_of(column)
            if any(numbers):  # the mean of an empty list is 0 already
                found[column.name] = sharing.rowwise(functools.partial(_with_numbers, numbers), values)
    return found


def _require_words(lists: Mapping[str, tf.RaggedTensor]) -> None:
    flat = {name: values.values for name, values in lists.items() if values.dtype == tf.string}
    if flat:
        said = f"Lists have no empty words; one in {', '.join(flat)} has: leave the word out."
        there = tf.reduce_all(tf.not_equal(tf.concat([*flat.values()], 0), ""))
        tf.raw_ops.Assert(condition=there, data=[said])  # `traced` makes the answer wait for it


def _with_default(default: str, words: tf.Tensor) -> tf.Tensor:
    return tf.where(tf.equal(words, ""), default, words)


def _with_numbers(numbers: Sequence[float], lists: tf.RaggedTensor) -> tf.RaggedTensor:
    checked = tf.RaggedTensor.from_row_splits(lists.values, lists.row_splits)
    return fill_empty(checked, numbers)


def of_one_user(features: Features, inputs: Sequence[Input]) -> Features:
    """The features of a request in which the first example's user has the candidates of all examples.

    Args:
        inputs: the inputs of an export. If it does not share users, the features are unchanged.
    """
    if COUNTS not in inputs:
        return features
    rows = [_rows(features[each.column]) for each in inputs if each.role == "candidate" and each.column in features]
    first = {each.column: features[each.column][:1] for each in inputs if each.per_user and each.column in features}
    counts = {COUNTS.column: tf.fill([tf.minimum(rows[0], 1)], rows[0])} if rows else {}
    return dict(features) | first | counts


def to_tensors(features: Features, inputs: Sequence[Input], model: CTRModel | OwnModel | None) -> dict[str, tf.Tensor]:
    """The tensors of a request, from the features of a batch as readers yield them.

    Args:
        features: features by name; if users are shared, with `candidates`. Without it each row is a user with one candidate.
        model: turns text into ids if the inputs are ids and the features are text; None if the inputs are text.
    Raises:
        CtrlabError: a column is missing, is not a list although it must be, or has ids although the inputs are text.
    """
    if model is not None and not isinstance(model, CTRModel):
        features = model.as_columns(features)
    if COUNTS in inputs and COUNTS.column not in features:
        rows = [_rows(features[each.column]) for each in inputs if each.column in features]
        features = dict(features) | {COUNTS.column: tf.ones(rows[:1], tf.int64)}
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
    encoded = [each for each in inputs if each.encoding and each.dtype != "string"]
    for per_user in (True, False):  # of which a request may have other numbers of rows
        text = [each for each in encoded if each.per_user == per_user and features[each.column].dtype == tf.string]
        columns = [model.input_schema[each.column] for each in text]
        features = dict(features) | (model.encoder.ids(features, columns) if text else {})
    tensors: dict[str, tf.Tensor] = {}
    for each in inputs:
        feature = features[each.column]
        if not each.ragged:
            tensors[each.column] = tf.cast(feature, each.dtype) if each.dtype != "string" else feature
            continue
        values, splits = feature.values, tf.cast(feature.row_splits, tf.int64)
        tensors |= dict(zip(each.specs, (tf.cast(values, each.dtype) if each.dtype != "string" else values, splits)))
    return tensors

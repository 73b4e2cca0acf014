"""Your own Keras model, none of the six, in the form that the export needs: it takes columns and gives float32 [B, K].

    keras.Input                                       a request's column
    shape (), or (1,)                                 one value per example, [B]
    shape (n,)                                        a list of n values per example
    shape (None,), ragged=True                        a list of any number of values per example

The model is functional, or a `keras.Sequential` that begins with a `keras.Input`. Constants of its layers, such as the means of a
Normalization, are exported with its weights; vocabularies are not.

A column has the name of its `keras.Input`, or its key if the model takes a dict. The answers are the model's outputs: end it with
a sigmoid if they shall be probabilities. Several outputs of one number each are placed side by side, and named after their
layers, which must have different names.
"""

from __future__ import annotations

import keras
import tensorflow as tf

from ctrlab.errors import CtrlabError
from ctrlab.models.base import CTRModel
from ctrlab.serving.inputs import Features, Input

DTYPES = ("float32", "int32", "int64", "string")


class OwnModel(keras.Model):
    """Gives a functional Keras model the methods and attributes that the export uses of the six models.

    Attributes:
        rungs: empty, because the model's ops are its own.
        rows_apart: false. It is not known whether the answer for a row depends on the others, so requests are never batched.
    Raises:
        CtrlabError: the model does not declare its inputs, or declares one that a request can't have.
    """

    def __init__(self, model: keras.Model):
        if not isinstance(model, keras.Model):
            raise CtrlabError(
                f"What is exported is a Keras model; received {model!r}: give that of ctrlab.build, or a keras.Model."
            )
        super().__init__(name=model.name)
        if not getattr(model, "inputs", None) or not getattr(model, "outputs", None):
            raise CtrlabError(
                f"A model that is exported says its columns by keras.Input; {model.name}, a {type(model).__name__}, does not: "
                "call it on them, and export keras.Model(inputs, model(inputs))."
            )
        if isinstance(model, keras.Sequential):  # it has neither `input` nor names of outputs before its first call
            model = keras.Model(model.inputs, model.outputs, name=model.name)
        self.model = model
        given = model.input
        if isinstance(given, dict) and not all(isinstance(tensor, keras.KerasTensor) for tensor in given.values()):
            raise CtrlabError(
                f"A model that is exported takes its columns in one dict, or in a list; those of {model.name} are nested: call "
                "it on them, and export keras.Model(list_of_inputs, model(nested_inputs))."
            )
        self.columns = dict(given) if isinstance(given, dict) else {tensor.name: tensor for tensor in keras.tree.flatten(given)}
        for column, tensor in self.columns.items():
            _check(model.name, column, tensor)
        if len({id(tensor) for tensor in self.columns.values()}) != len(model.inputs) or "/" in "".join(self.columns):
            raise CtrlabError(
                f"Columns have names of their own, without a slash; {model.name} has the inputs {', '.join(self.columns)}."
            )
        outputs = keras.tree.flatten(model.output)
        widths = [1 if len(tensor.shape) == 1 else tensor.shape[1] for tensor in outputs]
        if any(len(t.shape) > 2 or w is None for t, w in zip(outputs, widths)) or (len(outputs) > 1 and {*widths} != {1}):
            raise CtrlabError(
                f"A model that is exported gives [B, K], or several of [B, 1]; {model.name} gives "
                f"{', '.join(str(tuple(tensor.shape)) for tensor in outputs)}."
            )
        names = model.output_names
        if len({*names}) != len(names):
            raise CtrlabError(
                f"Several outputs are named by their layers; {model.name} has the outputs {', '.join(names)}: end each with a "
                "layer of its own, such as keras.layers.Identity(name=...)."
            )
        self.tasks = tuple(names) if widths[0] == 1 else tuple(f"{names[0]}_{k}" for k in range(widths[0]))
        self.rungs: frozenset[str] = frozenset()
        self.rows_apart = False
        self.built = True

    def inputs_of(self) -> tuple[Input, ...]:
        """A request's columns."""
        return tuple(Input(column, tensor.dtype, ragged=_is_list(tensor)) for column, tensor in self.columns.items())

    def as_columns(self, features: Features) -> dict[str, tf.Tensor | tf.RaggedTensor]:
        """Converts the features of a batch, in the form in which the model is trained on them, to a request's form."""
        found = dict(features)
        for column, tensor in self.columns.items():
            if column in found and not isinstance(found[column], tf.RaggedTensor):
                value = tf.convert_to_tensor(found[column])
                found[column] = tf.RaggedTensor.from_tensor(value) if _is_list(tensor) else tf.reshape(value, [-1])
        return found

    def probabilities(self, features: Features) -> tf.Tensor:
        """The model's outputs for a request's columns, float32 [B, K]."""
        given = [self._as_input(column, features[column]) for column in self.columns]
        by_tensor = {id(tensor): value for tensor, value in zip(self.columns.values(), given)}
        packed = keras.tree.map_structure(lambda tensor: by_tensor[id(tensor)], self.model.input)
        outputs = keras.tree.flatten(self.model(packed, training=False))
        answers = [tf.cast(out if out.shape.rank == 2 else out[:, None], tf.float32) for out in outputs]  # [B, K], or [B, 1] each
        return answers[0] if len(answers) == 1 else tf.concat(answers, 1)

    def _as_input(self, column: str, value):
        tensor = self.columns[column]
        if tensor.ragged or len(tensor.shape) == 1:
            return value
        if not _is_list(tensor):
            return value[:, None]  # [B, 1]
        n = tensor.shape[1]
        said = f"Lists of column {column} have {n} values each; one has another number."
        with tf.control_dependencies([tf.debugging.assert_equal(value.row_lengths(), tf.constant(n, tf.int64), said)]):
            return tf.reshape(value.values, [-1, n])  # [B, n]


def subject(model: keras.Model) -> CTRModel | OwnModel:
    """The model in the form that the export needs."""
    return model if isinstance(model, CTRModel | OwnModel) else OwnModel(model)


def _is_list(tensor: keras.KerasTensor) -> bool:
    return bool(tensor.ragged) or (len(tensor.shape) == 2 and tensor.shape[1] != 1)


def _check(model: str, column: str, tensor: keras.KerasTensor) -> None:
    fits = len(tensor.shape) == 1 or (len(tensor.shape) == 2 and (tensor.ragged or tensor.shape[1] is not None))
    if tensor.sparse or not fits:
        raise CtrlabError(
            f"A request's column has one value per example, n of them, or a ragged list; input {column!r} of {model} has "
            f"the shape {tuple(tensor.shape)}{', sparse' if tensor.sparse else ''}: "
            "give it shape (), (n,), or (None,) with ragged=True."
        )
    if tensor.dtype not in DTYPES:
        raise CtrlabError(f"A request's column is {', '.join(DTYPES)}; input {column!r} of {model} is {tensor.dtype}.")

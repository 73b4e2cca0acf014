"""Your own Keras model, none of the six, in the form that the export needs: its signature is the one that Keras gives it.

    keras.Input                                       a request's input
    shape (), (n,), (n, m), ...                       an array [B], [B, n], [B, n, m]; a None is any size, the same in all rows
    shape (None,), ragged=True                        a list of any number of values per example: values and row splits

    the model gives                                   the answer's outputs
    one tensor, alone or in a list                    "probabilities"
    several in a list                                 each, named after its layer; layers have different names
    a dict of tensors                                 each, by its key

Each has its own shape and type. As in Keras, a last size of 1 may be left out of a request, or be too much: [B] or [B, 1]. A list
that a request leaves out is empty. An input with `optional=True` is in every request, because a graph has all of its inputs.

The model is called once on rows of zeros, to see that its outputs are what its layers say: a layer that is wrong about its
output's shape would make an export that every server refuses.

The model is functional, or a `keras.Sequential` that begins with a `keras.Input`. Constants of its layers, such as the means of a
Normalization, are exported with its weights; vocabularies are not.

An input has the name of its `keras.Input`, or its key if the model takes a dict. The answers are the model's outputs: end it with
a sigmoid if they shall be probabilities. Of numbers in bfloat16 it gives float32.
"""

from __future__ import annotations

import keras
import tensorflow as tf

from ctrlab.errors import CtrlabError
from ctrlab.models import raw
from ctrlab.models.base import CTRModel
from ctrlab.serving.inputs import Features, Input

NUMBERS = ("float16", "float32", "float64", "bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
DTYPES = (*NUMBERS, "string")
OUTPUT = "probabilities"
"""The name of a single output."""
TRIED = 3
"""The rows of the trial call."""


class OwnModel(keras.Model):
    """Gives a functional Keras model the methods and attributes that the export uses of the six models.

    Attributes:
        tasks: the names of the columns of its outputs.
        rungs: empty, because the model's ops are its own.
        rows_apart: false. It is not known whether the answer for a row depends on the others, so requests are never batched.
    Raises:
        CtrlabError: the model does not declare its inputs, or has an input or an output that no request can have.
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
            model = keras.Model(model.inputs, model.outputs[0], name=model.name)
        self.model = model
        given = model.input
        if isinstance(given, dict) and not all(isinstance(tensor, keras.KerasTensor) for tensor in given.values()):
            raise CtrlabError(
                f"A model that is exported takes its columns in one dict, or in a list; those of {model.name} are nested: call "
                "it on them, and export keras.Model(list_of_inputs, model(nested_inputs))."
            )
        _require_names(model.name, "input", given)
        _require_names(model.name, "output", model.output)
        self.columns = dict(given) if isinstance(given, dict) else {tensor.name: tensor for tensor in keras.tree.flatten(given)}
        for column, tensor in self.columns.items():
            _check_input(model.name, column, tensor)
        if len({id(tensor) for tensor in self.columns.values()}) != len(model.inputs) or "/" in "".join(self.columns):
            raise CtrlabError(
                f"Columns have names of their own, without a slash; {model.name} has the inputs {', '.join(self.columns)}."
            )
        outputs = _outputs(model)
        for output, tensor in outputs.items():
            _check_output(model.name, output, tensor)
        self.outputs_named = tuple(outputs)
        layers = model.output_names if [*outputs] == [OUTPUT] else outputs
        self.tasks = tuple(task for name, tensor in zip(layers, outputs.values()) for task in _tasks(name, tensor))
        self.rungs: frozenset[str] = frozenset()
        self.rows_apart = False
        self.built = True
        self._try()

    def inputs_of(self) -> tuple[Input, ...]:
        """A request's columns."""
        return tuple(
            Input(name, tensor.dtype, ragged=True, default=())
            if tensor.ragged
            else Input(name, tensor.dtype, ragged=False, shape=tuple(tensor.shape[1:]))
            for name, tensor in self.columns.items()
        )

    def _try(self) -> None:
        """Raises CtrlabError if an output is none of its declared shape. Zeros may be no values of the model, so an error of the
        call says nothing: a call on warm-up rows follows.
        """
        rows = {column: _zeros(tensor) for column, tensor in self.columns.items()}
        try:
            found = self.outputs_of(rows)
        except Exception:  # the model's layers may raise anything
            return
        for (name, given), declared in zip(found.items(), _outputs(self.model).values()):
            wanted = (TRIED, *declared.shape[1:])
            if len(given.shape) != len(wanted) or any(size not in (None, got) for size, got in zip(wanted, given.shape)):
                raise CtrlabError(
                    f"A model that is exported gives a row of each output per example, of the shape that its layer says; output "
                    f"{name!r} of {self.name} says {tuple(declared.shape)}, and for {TRIED} rows it is {tuple(given.shape)}: "
                    "mend the layer's output_shape or its sum over rows."
                )

    def as_columns(self, features: Features) -> dict[str, tf.Tensor | tf.RaggedTensor]:
        """Converts the features of a batch, in the form in which the model is trained on them, to a request's form."""
        found = dict(features)
        for column, tensor in self.columns.items():
            if column in found and not isinstance(found[column], tf.RaggedTensor):
                value = tf.convert_to_tensor(found[column])
                if tensor.ragged:
                    value = tf.RaggedTensor.from_tensor(value)
                elif None not in tensor.shape[1:]:
                    value = tf.reshape(value, [tf.shape(value)[0], *tensor.shape[1:]])
                found[column] = value
        return found

    def outputs_of(self, features: Features) -> dict[str, tf.Tensor]:
        """{output: values} for a request's columns, after a check that its numbers are finite."""
        checked = dict(features)
        for column, value in features.items():
            flat = value.flat_values if isinstance(value, tf.RaggedTensor) else value
            if flat.dtype.is_floating:
                said = f"{raw.FINITE}; one of {column} is not: send a number."
                check = tf.raw_ops.Assert(condition=tf.reduce_all(tf.math.is_finite(flat)), data=[said])
                with tf.control_dependencies([check] if check is not None else []):
                    checked[column] = tf.identity(value) if value is flat else value.with_flat_values(tf.identity(flat))
        by_tensor = {id(tensor): checked[column] for column, tensor in self.columns.items()}
        packed = keras.tree.map_structure(lambda tensor: by_tensor[id(tensor)], self.model.input)
        outputs = self.model(packed, training=False)
        values = [outputs[name] for name in self.outputs_named] if isinstance(outputs, dict) else keras.tree.flatten(outputs)
        return {name: _dense(self.name, name, value) for name, value in zip(self.outputs_named, values)}


def _dense(model: str, output: str, value: object) -> tf.Tensor:
    """An output in a type that servers have. A layer's `output_shape` promises more than its call may keep."""
    tensor = isinstance(value, tf.Tensor)
    if not tensor or value.dtype.name not in (*NUMBERS, "bfloat16") or value.shape.rank is None:
        what = f"{value.dtype.name}, of the shape {value.shape}" if tensor else type(value).__name__
        raise CtrlabError(
            f"A model that is exported gives arrays of numbers with a row per example; output {output!r} of {model} is {what}: "
            "make such an array of it."
        )
    return tf.cast(value, tf.float32) if value.dtype == tf.bfloat16 else value


def _zeros(tensor: keras.KerasTensor) -> tf.Tensor | tf.RaggedTensor:
    """`TRIED` rows of an input."""
    empty = "" if tensor.dtype == "string" else 0
    if tensor.ragged:
        return tf.RaggedTensor.from_row_lengths(tf.cast(tf.fill([TRIED], empty), tensor.dtype), [1] * TRIED)
    return tf.cast(tf.fill([TRIED, *(size or 1 for size in tensor.shape[1:])], empty), tensor.dtype)


def _require_names(model: str, what: str, given: object) -> None:
    """Raises CtrlabError if the columns of a dict have names that are no text."""
    odd = [name for name in given if not isinstance(name, str)] if isinstance(given, dict) else []
    if odd:
        raise CtrlabError(
            f"Columns are named by text; {model} has the {what} {odd[0]!r}: make it a text, such as {str(odd[0])!r}."
        )


def subject(model: keras.Model) -> CTRModel | OwnModel:
    """The model in the form that the export needs."""
    return model if isinstance(model, CTRModel | OwnModel) else OwnModel(model)


def _outputs(model: keras.Model) -> dict[str, keras.KerasTensor]:
    """{name: tensor} of the model's outputs."""
    given = model.output
    if isinstance(given, keras.KerasTensor):
        return {OUTPUT: given}
    if not isinstance(given, dict | list | tuple) or not all(
        isinstance(tensor, keras.KerasTensor) for tensor in (given.values() if isinstance(given, dict) else given)
    ):
        raise CtrlabError(
            f"A model that is exported gives a tensor, a list or a dict of tensors; those of {model.name} are nested: export "
            "keras.Model(inputs, list_of_outputs)."
        )
    if isinstance(given, dict):
        return dict(given)
    if len(given) == 1:
        return {OUTPUT: given[0]}
    names = model.output_names
    if len({*names}) != len(names):
        raise CtrlabError(
            f"Several outputs are named by their layers; {model.name} has the outputs {', '.join(names)}: end each with a "
            "layer of its own, such as keras.layers.Identity(name=...), or give a dict."
        )
    return dict(zip(names, given))


def _tasks(name: str, tensor: keras.KerasTensor) -> tuple[str, ...]:
    """The names of an output's columns."""
    if len(tensor.shape) != 2 or tensor.shape[1] in (None, 1):
        return (name,)
    return tuple(f"{name}_{k}" for k in range(tensor.shape[1]))


def _check_input(model: str, column: str, tensor: keras.KerasTensor) -> None:
    if tensor.sparse or len(tensor.shape) < 1 or (tensor.ragged and len(tensor.shape) != 2):
        raise CtrlabError(
            f"A request's column is an array with a row per example, or a ragged list; input {column!r} of {model} has "
            f"the shape {tuple(tensor.shape)}{', sparse' if tensor.sparse else ', ragged' if tensor.ragged else ''}: "
            "give it shape (), (n, ...), or (None,) with ragged=True."
        )
    if tensor.dtype not in DTYPES:
        raise CtrlabError(f"A request's column is {', '.join(DTYPES)}; input {column!r} of {model} is {tensor.dtype}.")


def _check_output(model: str, output: str, tensor: keras.KerasTensor) -> None:
    if tensor.dtype not in (*NUMBERS, "bfloat16"):
        raise CtrlabError(f"An output is of numbers; output {output!r} of {model} is {tensor.dtype}: leave it out.")

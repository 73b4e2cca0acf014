"""What Keras's `fit`, `evaluate` and `predict` are given for our models: batches, or arrays that belong together row by row."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable, Iterator, Mapping

import keras
import numpy as np
import tensorflow as tf

from ctrlab.data import explained
from ctrlab.embedding.options import require_whole
from ctrlab.errors import BadData
from ctrlab.models import labels as rules

BATCHES = (tf.data.Dataset, tf.distribute.DistributedDataset, keras.utils.PyDataset, Iterator)
PARTS = ("x", "y", "sample_weight")
FORMS = "(features, labels) or (features, labels, weights), with the features in a dict by their names"
LEAST = {"batch_size": 1, "epochs": 0, "steps": 1, "steps_per_epoch": 1, "validation_batch_size": 1, "validation_steps": 1}
"""Whole numbers among the arguments, and the least that each may be."""


def checked(method: Callable, model, args: tuple, kwargs: dict) -> dict:
    """The arguments of a call of one of Keras's methods by name, checked. Lists, Series and tables of labels become arrays.

    Raises:
        BadData: features are neither batches nor a dict; arrays, labels and weights differ in their number of rows, or have none;
            weights or labels are none, or stand beside batches. CtrlabError: a number, such as of epochs, is none.
    """
    bound = inspect.signature(method).bind(model, *args, **kwargs)
    given = dict(bound.arguments) | bound.arguments.get("kwargs", {})
    given = {name: value for name, value in given.items() if name not in ("self", "kwargs")}
    for name in LEAST.keys() & given.keys():
        if given[name] is not None:
            require_whole(f"`{name}`", given[name], LEAST[name], 31)
    given |= _rows(model, method.__name__, given)
    if given.get("class_weight") is not None:
        _require_class_weights(given, model)
    if split := given.get("validation_split"):
        _require_split(split, given["x"])
    validation = given.get("validation_data")
    if validation is not None:
        several = isinstance(validation, tuple | list)
        if isinstance(validation, Mapping) or (several and len(validation) not in (2, 3)):
            received = f"{len(validation)} parts" if several else type(validation).__name__
            raise BadData(f"`validation_data` is batches, {FORMS}; received {received}.")
        parts = dict(zip(PARTS, validation)) if several else {"x": validation}
        parts |= _rows(model, "validation_data", parts)
        given["validation_data"] = tuple(parts.values()) if several else parts["x"]
    return given


def batch(data) -> tuple:
    """The features, labels and weights of a batch; None for what it lacks.

    Raises:
        BadData: it has other parts.
    """
    parts = tuple(data) if isinstance(data, tuple | list) else (data,)
    if not 1 <= len(parts) <= len(PARTS) or not isinstance(parts[0], Mapping):
        received = ", ".join(type(part).__name__ for part in parts[:4])
        raise BadData(f"A batch is {FORMS}; received {received}: give the features as a dict, and at most two parts behind it.")
    return (*parts, None, None)[:3]


def _rows(model, where: str, given: dict) -> dict:
    """The features, labels and weights among the arguments, as arrays of as many rows; batches are unchanged."""
    x = given.get("x")
    of_rows = {name: given[name] for name in PARTS[1:] if given.get(name) is not None}
    if isinstance(x, BATCHES):
        if of_rows:
            raise BadData(f"Batches hold labels and weights; `{where}` has {', '.join(of_rows)} beside them: put them into each.")
        if isinstance(x, tf.data.Dataset) and x.cardinality() == 0:
            raise _nothing(where)
        if isinstance(x, keras.utils.PyDataset):
            batch(x[0])  # Keras takes some, too, before it begins
        return {"x": _generated(model, where, x)} if isinstance(x, Iterator) else {}
    if not isinstance(x, Mapping):
        cure = "give the table to `ctrlab.training.score`"
        if where != "predict":
            cure = "write a table with `ctrlab.data.write`, and give what `ctrlab.data.read` gives for that file"
        raise BadData(
            f"`{where}` takes batches, or a dict of arrays by the features' names; received {type(x).__name__}: {cure}."
        )
    arrays = {name: _feature(name, values) for name, values in x.items()}
    _require_one_index(where, {**x, **of_rows})
    if "y" in of_rows:
        of_rows["y"] = rules.shaped(_array(of_rows["y"]), model.tasks).numpy()
    if "sample_weight" in of_rows:
        with explained():
            of_rows["sample_weight"] = rules.weights(_array(of_rows["sample_weight"])).numpy()
    sizes = {name: int(array.shape[0]) for name, array in {**arrays, **of_rows}.items()}
    if len({*sizes.values()}) > 1:
        said = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise BadData(f"Features, labels and weights of `{where}` have as many rows; received {said}: give each row one of each.")
    if not any(sizes.values()):
        raise BadData(f"`{where}` takes at least one row; received none.")
    return {"x": arrays} | of_rows


def _generated(model, where: str, batches: Iterator) -> Iterator[tuple]:
    """The batches of a generator in the form that Keras takes, checked as arrays are."""
    names = None
    for each in batches:
        parts = {name: part for name, part in zip(PARTS, batch(each)) if part is not None}
        names = names or {*parts["x"]}
        if {*parts["x"]} != names:
            found, first = (", ".join(sorted(map(str, of))) for of in (parts["x"], names))
            raise BadData(
                f"Batches for `{where}` have the same features; the first has {first}, another {found}: make them alike."
            )
        yield tuple((parts | _rows(model, where, parts)).values())
    if names is None:
        raise _nothing(where)


def _nothing(where: str) -> BadData:
    return BadData(f"`{where}` takes at least one batch; received none.")


def _feature(name: str, values) -> tf.Tensor | tf.RaggedTensor | np.ndarray:
    """Tensors as they are, lists of lists as a ragged tensor, other values as an array of numbers or a tensor of text."""
    try:
        found = values if tf.is_tensor(values) or isinstance(values, tf.RaggedTensor) else _converted(values)
    except (TypeError, ValueError):
        found = None
    if found is None or not len(found.shape):
        raise BadData(
            f"A feature has numbers, texts, or lists of them, one for each row; {name!r} has others, or only one, in "
            f"{type(values).__name__}: fill what is missing with the column's default."
        )
    return found


def _converted(values) -> tf.Tensor | tf.RaggedTensor | np.ndarray:
    if not isinstance(values, list | tuple):
        values = np.asarray(values)
        if values.dtype.kind in "biuf":
            return values
    if len(values) and all(isinstance(entry, list | tuple | np.ndarray) for entry in values) and getattr(values, "ndim", 1) == 1:
        return tf.ragged.constant([list(entry) for entry in values])
    array = np.asarray(values)
    return array if array.dtype.kind in "biuf" else tf.convert_to_tensor(array)


def _array(values):
    """Labels and weights: tensors as they are, anything else as an array."""
    return values if tf.is_tensor(values) else np.asarray(values)


def _require_one_index(where: str, given: dict) -> None:
    """Raises BadData if pandas would bring the rows of two arguments into another order."""
    named = [(name, values.index) for name, values in given.items() if hasattr(values, "iloc")]
    for name, index in named[1:]:
        if not index.equals(named[0][1]):
            raise BadData(
                f"Rows of `{where}` belong together by their places; the index of {name} is another than that of {named[0][0]}: "
                "sort both alike, and give to_numpy() of them."
            )


def _require_class_weights(given: dict, model) -> None:
    weights, tasks, y = given["class_weight"], model.tasks, given.get("y")
    if len(tasks) > 1:
        raise BadData(f"`class_weight` is for one task; the tasks are {', '.join(tasks)}: give each row its `sample_weight`.")
    good = isinstance(weights, Mapping) and all(key in (0, 1) for key in weights)
    if not good or not all(isinstance(w, numbers.Real) and math.isfinite(w) and w >= 0 for w in weights.values()):
        raise BadData(
            f"`class_weight` is a dict of finite weights that are not negative, {{0: 1.0, 1: 5.0}}; received {weights!r:.100}."
        )
    if given.get("sample_weight") is not None:
        raise BadData("Weights are by class or by row; received `class_weight` and `sample_weight`: multiply them, row by row.")
    if model.schema[tasks[0]].soft if y is None else not np.isin(y, (0, 1)).all():  # Keras takes a share for class 0
        raise BadData(f"`class_weight` is for labels 0 and 1; those of {tasks[0]} are shares: give each row its `sample_weight`.")


def _require_split(split, x) -> None:
    if isinstance(x, BATCHES):
        raise BadData("`validation_split` takes rows from arrays; received batches: give others as `validation_data`.")
    if not (isinstance(split, numbers.Real) and 0 < split < 1):
        raise BadData(f"`validation_split` is a share of the rows, in [0, 1); received {split!r:.100}.")

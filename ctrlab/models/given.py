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
from ctrlab.errors import BadData
from ctrlab.models import labels as rules

BATCHES = (tf.data.Dataset, tf.distribute.DistributedDataset, keras.utils.PyDataset, Iterator)


def checked(method: Callable, model, args: tuple, kwargs: dict) -> dict:
    """The arguments of a call of one of Keras's methods by name, checked. Lists, Series and tables of labels become arrays.

    Raises:
        BadData: features are neither batches nor a dict; arrays, labels and weights differ in their number of rows, or have none;
            weights or labels are none.
    """
    bound = inspect.signature(method).bind(model, *args, **kwargs)
    given = dict(bound.arguments) | bound.arguments.get("kwargs", {})
    given = {name: value for name, value in given.items() if name not in ("self", "kwargs")}
    given |= _rows(model, method.__name__, given)
    if given.get("class_weight") is not None:
        _require_class_weights(given["class_weight"], model.tasks)
    validation = given.get("validation_data")
    if validation is not None:
        parts = dict(zip(("x", "y", "sample_weight"), validation)) if isinstance(validation, tuple | list) else {"x": validation}
        parts |= _rows(model, "validation_data", parts)
        given["validation_data"] = tuple(parts.values()) if isinstance(validation, tuple | list) else validation
    return given


def _rows(model, where: str, given: dict) -> dict:
    """The features, labels and weights among the arguments, as arrays of as many rows; batches are unchanged."""
    x = given.get("x")
    if isinstance(x, BATCHES):
        return {}
    if not isinstance(x, Mapping):
        cure = "give the table to `ctrlab.training.score`"
        if where != "predict":
            cure = "write a table with `ctrlab.data.write`, and give what `ctrlab.data.read` gives for that file"
        raise BadData(
            f"`{where}` takes batches, or a dict of arrays by the features' names; received {type(x).__name__}: {cure}."
        )
    arrays = {name: _array(values) for name, values in x.items()}
    of_rows = {name: given[name] for name in ("y", "sample_weight") if given.get(name) is not None}
    _require_one_index(where, {**x, **of_rows})
    if "y" in of_rows:
        of_rows["y"] = rules.shaped(_array(of_rows["y"]), model.tasks).numpy()
    if "sample_weight" in of_rows:
        with explained():
            of_rows["sample_weight"] = rules.weights(_array(of_rows["sample_weight"])).numpy()
    sizes = {name: int(shape[0]) for name, array in {**arrays, **of_rows}.items() if len(shape := array.shape)}
    if len({*sizes.values()}) > 1:
        said = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise BadData(f"Features, labels and weights of `{where}` have as many rows; received {said}: give each row one of each.")
    if not any(sizes.values()):
        raise BadData(f"`{where}` takes at least one row; received none.")
    return {"x": arrays} | of_rows


def _array(values):
    """Tensors as they are; anything else as an array that Keras takes, with texts as objects."""
    if tf.is_tensor(values) or isinstance(values, tf.RaggedTensor):
        return values
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        return tf.ragged.constant(values)
    return array.astype(object) if array.dtype.kind in "US" else array


def _require_one_index(where: str, given: dict) -> None:
    """Raises BadData if pandas would bring the rows of two arguments into another order."""
    named = [(name, values.index) for name, values in given.items() if hasattr(values, "iloc")]
    for name, index in named[1:]:
        if not index.equals(named[0][1]):
            raise BadData(
                f"Rows of `{where}` belong together by their places; the index of {name} is another than that of {named[0][0]}: "
                "sort both alike, and give to_numpy() of them."
            )


def _require_class_weights(weights, tasks: tuple[str, ...]) -> None:
    if len(tasks) > 1:
        raise BadData(f"`class_weight` is for one task; the tasks are {', '.join(tasks)}: give each row its `sample_weight`.")
    good = isinstance(weights, Mapping) and all(key in (0, 1) for key in weights)
    if not good or not all(isinstance(w, numbers.Real) and math.isfinite(w) and w >= 0 for w in weights.values()):
        raise BadData(
            f"`class_weight` is a dict of finite weights that are not negative, {{0: 1.0, 1: 5.0}}; received {weights!r:.100}."
        )

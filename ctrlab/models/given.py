"""What Keras's `fit`, `evaluate` and `predict` are given for our models: batches, or arrays that belong together row by row."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable, Collection, Iterator, Mapping

import keras
import numpy as np
import tensorflow as tf

from ctrlab import masks
from ctrlab.data import explained
from ctrlab.embedding.options import require_whole
from ctrlab.errors import BadData
from ctrlab.models import labels as rules

BATCHES = (tf.data.Dataset, tf.distribute.DistributedDataset, keras.utils.PyDataset, Iterator)
PARTS = ("x", "y", "sample_weight")
FORMS = "(features, labels) or (features, labels, weights), with the features in a dict by their names"
OF_ROWS = ("batch_size", "steps", "steps_per_epoch", "validation_batch_size", "validation_steps")
LEAST = dict.fromkeys(OF_ROWS, 1) | {"epochs": 0, "initial_epoch": 0}
"""Whole numbers among the arguments, and the least that each may be."""


def checked(method: Callable, model, args: tuple, kwargs: dict) -> dict:
    """The arguments of a call of one of Keras's methods by name, checked. Lists, Series and tables of labels become arrays, and
    the class weights of batches their rows' weights.

    Raises:
        BadData: features are neither batches nor a dict; arrays, labels and weights differ in their number of rows, or have none;
            weights or labels are none, or stand beside batches; a value is masked. CtrlabError: a number, such as of epochs, is
            none.
    """
    bound = inspect.signature(method).bind(model, *args, **kwargs)
    given = dict(bound.arguments) | bound.arguments.get("kwargs", {})
    given = {name: value for name, value in given.items() if name not in ("self", "kwargs")}
    for name in LEAST.keys() & given.keys():
        if given[name] is not None:
            require_whole(f"`{name}`", given[name], LEAST[name], 31)
    classes = given.get("class_weight")
    if classes is not None:
        _require_class_weights(given, model)
    given |= _rows(model, method.__name__, given, classes)
    if classes is not None and isinstance(given["x"], BATCHES):
        given["class_weight"] = None  # each batch has its rows' weights
    if split := given.get("validation_split"):
        _require_split(split, given["x"])
    _require_validation_epochs(given.get("validation_freq", 1))
    callbacks = given.get("callbacks")
    for each in callbacks if isinstance(callbacks, list | tuple) else [callbacks]:
        if not isinstance(each, keras.callbacks.Callback | None):
            raise BadData(f"`callbacks` is one of Keras's callbacks, or a list of them; received {each!r:.100}.")
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


def _rows(model, where: str, given: dict, classes: Mapping | None = None) -> dict:
    """The features, labels and weights among the arguments, as arrays of as many rows; or checked batches, which have the weights
    of their rows' `classes`.
    """
    x = given.get("x")
    of_rows = {name: given[name] for name in PARTS[1:] if given.get(name) is not None}
    of_batch = where.endswith("_on_batch")
    if isinstance(x, BATCHES) and not of_batch:
        if of_rows:
            raise BadData(f"Batches hold labels and weights; `{where}` has {', '.join(of_rows)} beside them: put them into each.")
        return {"x": _batches(model, where, x, classes)}
    if not isinstance(x, Mapping):
        cure = "give the table to `ctrlab.training.score`"
        if not where.startswith("predict"):
            cure = "write a table with `ctrlab.data.write`, and give what `ctrlab.data.read` gives for that file"
        takes = "a dict" if of_batch else "batches, or a dict"
        raise BadData(f"`{where}` takes {takes} of arrays by the features' names; received {type(x).__name__}: {cure}.")
    masks.require_features(x)
    arrays = {name: _feature(name, values) for name, values in x.items()}
    _require_one_index(where, {**x, **of_rows})
    if "y" in of_rows:
        of_rows["y"] = rules.shaped(_array(of_rows["y"]), model.tasks).numpy()
        if classes is not None:
            with explained():
                rules.by_class(of_rows["y"], classes)
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


def _batches(model, where: str, x, classes: Mapping | None):
    """Batches in the form that Keras takes. Those of a generator or a PyDataset are checked as arrays are."""
    if isinstance(x, tf.data.Dataset):
        if x.cardinality() == 0:
            raise _nothing(where)
        return x if classes is None else _weighted(x, model, classes)
    if isinstance(x, tf.distribute.DistributedDataset):
        if classes is not None:
            raise BadData("`class_weight` is for batches that are not distributed: give each row its `sample_weight`.")
        return x
    check = _Alike(model, where, classes)
    return _generated(check, x) if isinstance(x, Iterator) else _Sequenced(check, x)


def _weighted(batches: tf.data.Dataset, model, classes: Mapping) -> tf.data.Dataset:
    """The batches with the weights of their rows' classes."""
    _, labels, weights = batch(batches.element_spec)
    _require_one_weight(weights)
    if labels is None:
        rules.shaped(labels, model.tasks)  # refuses it

    @tf.autograph.experimental.do_not_convert
    def with_weights(features, labels):
        labels = rules.shaped(labels, model.tasks)
        return features, labels, rules.by_class(labels, classes)

    return batches.map(with_weights)


class _Alike:
    """Checks batches of Python, one after the other, as arrays are; all have the form of the first."""

    def __init__(self, model, where: str, classes: Mapping | None):
        self._model, self.where, self._classes, self._first = model, where, classes, None

    def __call__(self, each) -> tuple:
        parts = {name: part for name, part in zip(PARTS, batch(each)) if part is not None}
        made = parts | _rows(self._model, self.where, parts, self._classes)
        kinds = {str(name): _kind(values) for name, values in made["x"].items()} | {name: "" for name in made if name != "x"}
        self._first = self._first or kinds
        first = self._first
        # Whole numbers become fractions where the first batch has these.
        if {*kinds} != {*first} or not all(first[name] in (kind, kind.replace("whole ", "")) for name, kind in kinds.items()):
            said, wanted = (", ".join(sorted(f"{name}{kind}" for name, kind in of.items())) for of in (kinds, first))
            raise BadData(
                f"Batches for `{self.where}` have the same features, of the same kinds; the first has {wanted}, another {said}: "
                "make them alike."
            )
        if self._classes is not None:
            _require_one_weight(made.get("sample_weight"))
            made["sample_weight"] = rules.by_class(rules.shaped(made.get("y"), self._model.tasks), self._classes).numpy()
        return tuple(made.values())


def _kind(values) -> str:
    """What a feature holds, in words."""
    text = values.dtype == tf.string
    kind = "text" if text else "numbers" if tf.as_dtype(values.dtype).is_floating else "whole numbers"
    return f" of {'lists of ' * isinstance(values, tf.RaggedTensor)}{kind}"


def _generated(check: _Alike, batches: Iterator) -> Iterator[tuple]:
    """The batches of a generator, checked."""
    each = None
    for each in batches:
        yield check(each)
    if each is None:
        raise _nothing(check.where)


class _Sequenced(keras.utils.PyDataset):
    """The batches of a PyDataset, checked; in threads, because what the check needs of TensorFlow works in no forked process."""

    def __init__(self, check: _Alike, batches: keras.utils.PyDataset):
        super().__init__(batches.workers, False, batches.max_queue_size)
        self._check, self._batches = check, batches
        if self.num_batches == 0:
            raise _nothing(check.where)
        self[0]

    def __getitem__(self, place):
        return self._check(self._batches[place])

    @property
    def num_batches(self):
        return self._batches.num_batches

    def on_epoch_begin(self):
        self._batches.on_epoch_begin()

    def on_epoch_end(self):
        self._batches.on_epoch_end()


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
    """Labels and weights: tensors as they are, anything else as an array. Their rules refuse a masked one, and a dict."""
    return values if tf.is_tensor(values) or isinstance(values, np.ma.MaskedArray | Mapping) else np.asarray(values)


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
    weights, tasks = given["class_weight"], model.tasks
    if len(tasks) > 1:
        raise BadData(f"`class_weight` is for one task; the tasks are {', '.join(tasks)}: give each row its `sample_weight`.")
    good = isinstance(weights, Mapping) and all(key in (0, 1) for key in weights)
    if not good or not all(isinstance(w, numbers.Real) and math.isfinite(w) and w >= 0 for w in weights.values()):
        raise BadData(
            f"`class_weight` is a dict of finite weights that are not negative, {{0: 1.0, 1: 5.0}}; received {weights!r:.100}."
        )
    _require_one_weight(given.get("sample_weight"))


def _require_one_weight(weights) -> None:
    if weights is not None:
        raise BadData("Weights are by class or by row; received `class_weight` and `sample_weight`: multiply them, row by row.")


def _require_split(split, x) -> None:
    if isinstance(x, BATCHES):
        raise BadData("`validation_split` takes rows from arrays; received batches: give others as `validation_data`.")
    if not (isinstance(split, numbers.Real) and 0 < split < 1):
        raise BadData(f"`validation_split` is a share of the rows, in [0, 1); received {split!r:.100}.")
    rows = int(next(iter(x.values())).shape[0])
    if not 0 < math.floor(rows * (1 - split)) < rows:
        raise BadData(f"`validation_split` leaves each side a row at least; received {split!r} for {rows} rows: give more rows.")


def _require_validation_epochs(epochs) -> None:
    several = isinstance(epochs, Collection) and not isinstance(epochs, str)
    for each in epochs if several and epochs else [epochs]:
        if not isinstance(each, numbers.Integral) or isinstance(each, bool) or each < 1:
            raise BadData(
                "`validation_freq` is after how many epochs, at least 1, a validation comes, or a list of epochs from 1 on; "
                f"received {epochs!r:.100}."
            )

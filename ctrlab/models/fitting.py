"""Adapts Keras's `fit`, `evaluate` and `predict` for our models, so that they compute the same as our own step."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import keras
import tensorflow as tf

from ctrlab import devices, masks
from ctrlab.data import explained
from ctrlab.models import given, held
from ctrlab.models import labels as rules
from ctrlab.ops.refusals import one_sentence


class Fitted:
    """A base class that comes before `keras.Model`. A step that is refused changes nothing and says why in one sentence.

    A step is refused if a moving statistic would not be finite; and, if the optimizer is a `ctrlab.training.TouchedRows`, if the
    loss or a gradient is not.
    """

    _forward: held.Held | None = None

    def __call__(self, *args, **kwargs):
        masks.require_features(args[0] if args else None)
        with devices.of(self):
            if self._forward is None:
                return super().__call__(*args, **kwargs)
            return self._forward.call(self, super().__call__, *args, **kwargs)

    def train_step(self, data):
        with devices.of(self), held.step(self.optimizer) as self._forward:
            try:
                return super().train_step(self._checked(data))
            finally:
                self._forward = None

    def test_step(self, data):
        with devices.of(self):
            return super().test_step(self._checked(data))

    def predict_step(self, data):
        with devices.of(self):
            return super().predict_step(given.batch(data)[:1])

    def _checked(self, data):
        x, y, weights = given.batch(data)
        labels = rules.valid(rules.shaped(y, self.tasks))
        return x, labels, None if weights is None else rules.weights(weights, labels)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = super().compute_loss(x, self._labels(y, y_pred), y_pred, sample_weight, training)
        return loss if self._forward is None else self._forward.checked(loss)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return super().compute_metrics(x, self._labels(y, y_pred), y_pred, sample_weight)

    def _labels(self, y, y_pred):
        return rules.of_rows(rules.shaped(y, self.tasks), y_pred)

    @functools.wraps(keras.Model.fit)
    def fit(self, *args, **kwargs):
        arguments = given.checked(keras.Model.fit, self, args, kwargs)
        if isinstance(arguments["x"], tf.data.Dataset | Iterator):
            arguments.setdefault("shuffle", False)  # the default, True, does nothing with these but warn
        return super().fit(**arguments)

    @functools.wraps(keras.Model.evaluate)
    def evaluate(self, *args, **kwargs):
        return super().evaluate(**given.checked(keras.Model.evaluate, self, args, kwargs))

    @functools.wraps(keras.Model.predict)
    def predict(self, *args, **kwargs):
        with explained(), one_sentence():  # it reads the data itself, unlike `fit`
            return super().predict(**given.checked(keras.Model.predict, self, args, kwargs))

    @functools.wraps(keras.Model.predict_on_batch)
    def predict_on_batch(self, *args, **kwargs):
        with explained(), one_sentence():
            return super().predict_on_batch(**given.checked(keras.Model.predict_on_batch, self, args, kwargs))

    @functools.wraps(keras.Model.train_on_batch)
    def train_on_batch(self, *args, **kwargs):
        return super().train_on_batch(**given.checked(keras.Model.train_on_batch, self, args, kwargs))

    @functools.wraps(keras.Model.test_on_batch)
    def test_on_batch(self, *args, **kwargs):
        return super().test_on_batch(**given.checked(keras.Model.test_on_batch, self, args, kwargs))

    def make_train_function(self, force=False):
        self._build_for_steps()
        made = self.train_function
        super().make_train_function(force)
        if self.train_function is not made:
            self.train_function = _in_sentences(self.train_function)

    def _build_for_steps(self) -> None:
        """Makes the variables of the optimizer and of metrics before a step is traced: if its first trace fails, or its first
        batch is refused, those that are made inside are of no use, and each later `fit` fails.
        """
        if not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        if self._compile_metrics is not None and not self._compile_metrics.built:
            nothing = tf.zeros([1, len(self.tasks)])  # [1, K]
            with devices.of(self):
                self._compile_metrics.build(nothing, nothing)

    def make_test_function(self, force=False):
        made = self.test_function
        super().make_test_function(force)
        if self.test_function is not made:
            self.test_function = _in_sentences(self.test_function)


def _in_sentences(function):
    @functools.wraps(function)
    def explaining(iterator):
        with explained(), one_sentence():
            return function(iterator)

    return explaining

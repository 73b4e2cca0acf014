"""Fixtures that the tests of models share: made-up batches."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from ctrlab import training
from ctrlab.data import SCHEMAS
from ctrlab.model_names import DATA_SETS
from ctrlab.models import build
from ctrlab.schema import Categorical, Numeric, NumericList

ROWS = 64


def make_batch(schema, rows=ROWS, seed=0, lengths=None, text=False):
    """A batch of made-up values of every kind: empty lists, unknown words and, with `text`, unsplit lists."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 9, rows) if lengths is None else np.array(lengths)
    total = int(lengths.sum())

    def values(column, n):
        if isinstance(column, NumericList):
            return np.round(rng.random(n) * 5, 2).astype("f4")
        if column.encoding == "identity":
            return rng.integers(0, column.buckets, n)
        words = [*column.vocabulary, "odd"] if column.vocabulary else [f"w{i}" for i in range(200)]
        return rng.choice(words, n).astype(bytes)

    features = {}
    for column in schema.features:
        if isinstance(column, Numeric):
            features[column.name] = tf.constant(rng.random(rows) * 10, tf.float32)
        elif isinstance(column, Categorical):
            features[column.name] = tf.constant(values(column, rows))
        else:
            flat = values(column, total)
            if text:
                parts = np.split(
                    [str(v, "utf8") if isinstance(v, bytes) else str(v) for v in flat.tolist()], np.cumsum(lengths)[:-1]
                )
                features[column.name] = tf.constant([column.separator.join(part) for part in parts])
            else:
                features[column.name] = tf.RaggedTensor.from_row_lengths(tf.constant(flat), lengths)
    return features, tf.constant(rng.integers(0, 2, (rows, len(schema.labels))), tf.float32)


@pytest.fixture(scope="session")
def batch():
    return make_batch


@dataclasses.dataclass(frozen=True)
class Traced:
    """A model with its optimizer, step and predict step, all of which are traced at their first call and not again."""

    model: object
    optimizer: object
    step: object
    predict: object
    first: dict


@pytest.fixture(scope="session")
def traced():
    """`traced(name, rungs)` -> the model on its own data set with small tables, made once, and in its first state each time."""

    @functools.cache
    def made(name, rungs):
        model = build(name, SCHEMAS[DATA_SETS[name]].with_buckets(500), rungs)
        optimizer = training.make_optimizer(model)
        step, predict = training.train_step(model, optimizer), training.predict_step(model)
        return Traced(model, optimizer, step, predict, training.get_state(model, optimizer))

    def of(name, rungs="all"):
        found = made(name, rungs)
        training.set_state(found.first, found.model, found.optimizer)
        return found

    return of

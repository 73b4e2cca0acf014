"""Exports of models that are made in no time and answer differently, for tests of which version answers."""

import json
import shutil

import keras
import numpy as np
import tensorflow as tf

from ctrlab import serving
from ctrlab.embedding import Embedding
from ctrlab.training import TouchedRows, train

ITEMS = tf.constant([1, 2, 3, 4], tf.int64)
BODY = json.dumps({"inputs": {"item": ITEMS.numpy().tolist()}}).encode()


def bundled(seed):
    """A model with weights beside its graph."""
    keras.utils.set_random_seed(seed)
    given = {"item": keras.Input((), dtype="int64", name="item")}
    rows = Embedding(4, {"item": "items"}, {"item": "rows"})(given)["item"]
    model = keras.Model(given, keras.layers.Dense(1, activation="sigmoid")(rows))
    model.optimizer = TouchedRows("adam_async", 0.5)
    train(model, model.optimizer, [({"item": ITEMS}, tf.ones((4, 1)))])
    return model


def stock(seed):
    """A model with weights in its graph."""
    keras.utils.set_random_seed(seed)
    given = {"item": keras.Input((), dtype="int64", name="item")}
    rows = keras.layers.Embedding(10, 4)(keras.ops.mod(given["item"], 10))
    return keras.Model(given, keras.layers.Dense(1, activation="sigmoid")(rows))


def export(made, seed, place):
    """Exports a model of `bundled` or `stock` with a warm-up request."""
    return serving.export_model(made(seed), place, rows=[{"item": ITEMS}])


def right(export):
    return np.array(serving.read_manifest(export).warm_up[0])


def answers(processor):
    return np.array(json.loads(processor.process(BODY, "json").data)["outputs"])


def answers_as(processor, export):
    return np.allclose(answers(processor), right(export), atol=1e-5)


def put(export, place):
    """Copies an export and renames it, as careful people do."""
    shutil.copytree(export, place.with_name(f".{place.name}.part"))
    place.with_name(f".{place.name}.part").rename(place)

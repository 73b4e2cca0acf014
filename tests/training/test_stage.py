"""A staged batch gives a model the very numbers that a raw one gives it."""

import numpy as np
import pytest
import tensorflow as tf

from ctrlab.model_names import DATA_SETS
from ctrlab.models import MODELS, build
from ctrlab.schema import Categorical, Label, Numeric, Schema
from ctrlab.training import gradients_of, make_optimizer, train
from ctrlab.training.stage import stage


def flat(features):
    return {name: tf.nest.flatten(value, expand_composites=True) for name, value in features.items()}


@pytest.mark.parametrize("optimizations", ["none", "all"])
@pytest.mark.parametrize("name", MODELS)
def test_the_same_answers_from_staged_batches(small_batches, name, optimizations):
    schema, batches = small_batches(DATA_SETS[name])
    model = build(name, schema, optimizations)
    raw = tf.data.Dataset.from_tensors(batches[0])
    [(features, labels)] = stage(raw, model, 2)
    assert all(value.dtype != tf.string for values in flat(features).values() for value in values)
    expected, received = (gradients_of(model, f, labels) for f in (batches[0][0], features))
    for a, b in zip(tf.nest.flatten(expected), tf.nest.flatten(received), strict=True):
        np.testing.assert_array_equal(tf.convert_to_tensor(a).numpy(), tf.convert_to_tensor(b).numpy())


def test_the_same_losses_in_the_same_order(small_batches):
    schema, batches = small_batches("food_delivery")
    losses = []
    for depth in (0, 1, 3):
        model = build("wdl", schema)
        rows = tf.data.Dataset.from_generator(
            lambda: iter(batches), output_signature=tf.nest.map_structure(tf.type_spec_from_value, batches[0])
        ).apply(tf.data.experimental.assert_cardinality(len(batches)))
        losses.append(train(model, make_optimizer(model), stage(rows, model, depth)).losses)
    assert losses[0] == losses[1] == losses[2] and len(losses[0]) == len(batches)


def test_a_user_s_own_graph_of_it_brings_no_warning(caplog):
    """TensorFlow warns of each Python function that it can't rewrite."""
    model = build("wdl", Schema("own", (Label("click"), Categorical("user", 50), Numeric("price"))), size="small")
    tf.function(model.encoder.stage)({"user": tf.constant(["ann"]), "price": tf.constant([1.0])})
    assert caplog.messages == []

"""Models whose features are text and ragged lists, saved and exported for serving: the same answers, from the same features."""

import pytest
import tensorflow as tf

from ctrlab import models


@pytest.mark.parametrize(("model", "data_set", "rungs"), [("wdl", "food_delivery", "none"), ("dien", "amazon_reviews", "all")])
def test_a_saved_and_an_exported_model_answer_alike(model, data_set, rungs, small_batches, tmp_path):
    schema, batches = small_batches(data_set)
    features, _ = batches[0]
    network = models.build(model, schema, rungs)
    expected = network(features, training=False)
    served = {name: features[name] for name in network.input_signature()}

    tf.saved_model.save(network, str(tmp_path / "saved"))
    saved = tf.saved_model.load(str(tmp_path / "saved")).signatures["serving_default"]
    assert tf.string in {tensor.dtype for tensor in saved.inputs}

    network.export(tmp_path / "exported")
    exported = tf.saved_model.load(str(tmp_path / "exported"))
    tf.debugging.assert_near(exported.serve(served), expected)
    assert "serving_default" in exported.signatures

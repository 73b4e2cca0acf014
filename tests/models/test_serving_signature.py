"""Models whose features are text and ragged lists, saved and exported for serving: the same answers, from the same features."""

import pytest
import tensorflow as tf

from ctrlab import models, training
from ctrlab.embedding import embedding_variables


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

    alone = {name: feature[:1] for name, feature in served.items()}
    assert exported.serve(alone).shape == (1, expected.shape[1])
    own = {name: tf.type_spec_from_value(feature) for name, feature in served.items()}
    network.export(tmp_path / "own", input_signature=[own])
    of_its_size = tf.saved_model.load(str(tmp_path / "own"))
    tf.debugging.assert_near(of_its_size.serve(served), expected)
    with pytest.raises(TypeError, match="Can not cast"):
        of_its_size.serve(alone)


def test_an_export_has_no_slots(small_batches, tmp_path):
    """For embedding variables it has keys and values only, although the model has been trained; a checkpoint has the slots."""
    schema, batches = small_batches("criteo")
    network = models.build("dlrm", schema, "lookup", embedding={"C1": "variable"})
    step = training.train_step(network, training.make_optimizer(network))
    for batch in batches[:2]:
        step(*batch)
    (table,) = embedding_variables(network)
    assert table.rows() > 0 and len(table.slot_names) > 0
    network.export(tmp_path / "exported")
    shapes = tf.train.load_checkpoint(str(tmp_path / "exported/variables/variables")).get_variable_to_shape_map()
    found = {name.rpartition("/")[2]: shape for name, shape in shapes.items() if not name.endswith("VARIABLE_VALUE")}
    found.pop("_CHECKPOINTABLE_OBJECT_GRAPH")
    assert found == {"keys": [table.rows()], "values": [table.rows(), table.dim]}
    features = batches[0][0]
    served = {name: features[name] for name in network.input_signature()}
    exported = tf.saved_model.load(str(tmp_path / "exported"))
    tf.debugging.assert_near(exported.serve(served), network(features, training=False))

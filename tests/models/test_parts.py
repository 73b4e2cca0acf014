"""The parts that are a model's own, each against a few lines of NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from ctrlab.data import schema as schema_of
from ctrlab.models import blocks, build, tables
from ctrlab.models.dien import AuxiliaryNet
from ctrlab.models.mmoe import Experts
from ctrlab.ops import auxiliary
from ctrlab.ops.events import Events

REVIEWS = schema_of("amazon_reviews").with_buckets(50)


def test_experts_are_towers_side_by_side():
    experts = Experts(3, 4, (5, 2), blocks.Seeds(1), name="experts")
    for bias in experts.biases:
        bias.assign(np.random.default_rng(0).normal(size=bias.shape))
    x = np.random.default_rng(1).normal(size=(6, 4)).astype("f4")
    out = experts(x)
    assert out.shape == (3, 6, 2)
    for e in range(3):
        h = x
        for kernel, bias in zip(experts.kernels, experts.biases):
            h = np.maximum(h @ kernel.numpy()[e] + bias.numpy()[e], 0)
        np.testing.assert_allclose(out[e], h, atol=1e-6)
    first = experts.kernels[0].numpy()
    assert np.abs(first[0] - first[1]).max() > 0.01, "experts must not start alike"


def test_wide_ids_fold_and_unknown_stays_unknown():
    ids = tf.constant([0, 999, 1_000, -1, 5_003], tf.int64)
    np.testing.assert_array_equal(tables.fold(ids, 1_000), [0, 999, 0, -1, 3])


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("lengths", [(3, 0, 1, 2), (0, 1)])
def test_auxiliary_net_is_the_reference_on_padded_and_on_flat_interests(fused, lengths):
    rng = np.random.default_rng(0)
    net = AuxiliaryNet(4, 2, (100, 50), blocks.Seeds(1), ["auxiliary"] if fused else [])
    splits, most = tf.constant(np.concatenate([[0], np.cumsum(lengths)])), max(lengths)
    interests = rng.normal(size=(len(lengths), most, 4)).astype("f4")
    clicked, skipped = (rng.normal(size=(sum(lengths), 2)).astype("f4") for _ in range(2))
    flat = interests[np.arange(most) < np.array(lengths)[:, None]]
    layers = [(np.float64(dense.kernel), np.float64(dense.bias)) for dense in net.tower.layers]
    events = [Events(splits, flat=tf.constant(e)) for e in (clicked, skipped)]
    expected = auxiliary.OP.reference(Events(splits, flat=flat), *events, 1.0, 0.0, layers)
    for form in ({"flat": tf.constant(flat)}, {"padded": tf.constant(interests)}):
        np.testing.assert_allclose(net.loss(Events(splits, **form), *events), expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["din", "dien"])
def test_padding_contributes_nothing(name, batch):
    """A row's logit is the same by itself as beside a row with a longer history; so is one without any history."""
    model = build(name, REVIEWS)
    features, _ = batch(REVIEWS, rows=4, lengths=[2, 0, 9, 1])
    together = model(features)
    for row in range(4):
        alone = model({column: values[row : row + 1] for column, values in features.items()})
        np.testing.assert_allclose(alone[0], together[row], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["din", "dien"])
def test_the_last_events_are_kept(name, batch):
    model = build(name, REVIEWS)
    features, _ = batch(REVIEWS, rows=2, lengths=[60, 50])
    cut = {c: v[:, -50:] if isinstance(v, tf.RaggedTensor) else v for c, v in features.items()}
    np.testing.assert_array_equal(model(features), model(cut))


def test_dien_answers_without_negatives_and_trains_only_with_them(batch):
    model = build("dien", REVIEWS)
    features, _ = batch(REVIEWS)
    served = {name: values for name, values in features.items() if not name.startswith("negative")}
    np.testing.assert_array_equal(model(served), model(features))
    assert model.losses == []
    model(features, training=True)
    assert len(model.losses) == 1


@pytest.mark.parametrize("column", ["history_categories", "negative_items"])
def test_lists_of_unequal_length_are_refused(column, batch):
    model = build("dien", REVIEWS)
    features, _ = batch(REVIEWS, rows=2, lengths=[2, 3])
    features[column] = features[column][:, 1:]
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be of equal length"):
        model(features, training=True)


def test_the_linear_part_has_at_most_the_weights_of_its_sizes():
    schema = schema_of("criteo")
    assert build("wdl", schema).wide.sizes == dict.fromkeys(schema.wide, 1_000)
    assert build("wdl", schema, size="small").wide.sizes == dict.fromkeys(schema.wide, 10_000)


def test_only_the_joint_norm_lets_an_answer_depend_on_other_rows(batch):
    schema = schema_of("criteo").with_buckets(50)
    features, _ = batch(schema, seed=0)
    first = {name: values[:1] for name, values in features.items()}
    for size, apart in (("contest", False), ("small", True)):
        model = build("wdl", schema, size=size)
        assert model.rows_apart == apart
        assert np.allclose(model(features)[:1], model(first), atol=1e-6) == apart

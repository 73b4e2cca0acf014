"""Numbers are standardized by the statistics of all rows trained on, the same in training and in serving."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab.models import MODELS, build
from ctrlab.models.scaling import LEAST_VARIANCE, Standardized
from ctrlab.schema import Categorical, Label, Numeric, NumericList, Schema
from ctrlab.training import compile_model, make_optimizer, train_step

SCHEMA = Schema("own", (Label("y"), Numeric("x"), NumericList("xs"), Categorical("a", 10), Categorical("b", 10)), wide=("a", "b"))
SCALED = [name for name in MODELS if not name.startswith("di")]


def batch(rows: int, seed: int = 0, level: float = 100.0):
    rng = np.random.default_rng(seed)
    numbers = rng.normal(level, 7.0, (2, rows)).astype(np.float32)
    features = {"x": tf.constant(numbers[0]), "xs": tf.RaggedTensor.from_row_lengths(numbers[1], np.ones(rows, np.int64))}
    words = {name: tf.constant([f"w{i}" for i in rng.integers(0, 9, rows)]) for name in "ab"}
    return features | words, tf.constant(rng.integers(0, 2, (rows, 1)).astype(np.float32))


def scaled(name: str, **numbers):
    small = MODELS[name].presets["small"]
    return build(name, SCHEMA, size=dataclasses.replace(small, scaled=True, **numbers))


@settings(deadline=None)  # the first example builds TensorFlow's kernels
@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=6),
    st.floats(-1e3, 1e3, width=32),
    st.floats(0.125, 30, width=32),
    st.integers(0, 99),
)
def test_the_statistics_are_those_of_all_rows_however_they_came(sizes, level, spread, seed):
    rng = np.random.default_rng(seed)
    layer = Standardized(3, "numbers")
    batches = [rng.normal(level, spread, (n, 3)).astype(np.float32) for n in sizes]
    for x in batches:
        out = layer(x, training=True)
    rows = np.concatenate(batches).astype(np.float64)
    assert int(layer.rows.value) == len(rows)
    np.testing.assert_allclose(layer.mean.numpy(), rows.mean(0), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(layer.variance.numpy(), rows.var(0), rtol=2e-3, atol=1e-3)
    np.testing.assert_array_equal(layer(batches[-1]), out, err_msg="training and serving use the same statistics")
    expected = (batches[-1] - layer.mean.numpy()) / np.sqrt(layer.variance.numpy() + LEAST_VARIANCE)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


def test_a_constant_column_becomes_zero():
    layer = Standardized(1, "numbers")
    np.testing.assert_allclose(layer(np.full((8, 1), 3.0, np.float32), training=True), 0, atol=1e-3)


@pytest.mark.parametrize("name", SCALED)
def test_a_model_standardizes_its_numbers_in_training_only_once_a_step(name):
    model = scaled(name)
    step = train_step(model, make_optimizer(model))
    for seed, rows in enumerate((40, 60)):
        step(*batch(rows, seed))
    features = [batch(rows, seed)[0] for seed, rows in enumerate((40, 60))]
    x = np.concatenate([f["x"] for f in features])
    assert int(model.scaling.rows.value) == 100
    np.testing.assert_allclose(model.scaling.mean.numpy()[0], x.mean(), rtol=1e-5)
    model(features[0])
    assert int(model.scaling.rows.value) == 100


def test_the_size_of_the_numbers_does_not_matter():
    logits = []
    for level in (0.0, 1e3):
        model = scaled("deepfm")
        step = train_step(model, make_optimizer(model))
        for seed in range(3):
            step(*batch(64, seed, level))
        logits.append(model(batch(64, 9, level)[0]).numpy())
    np.testing.assert_allclose(logits[1], logits[0], atol=5e-3)
    assert np.ptp(logits[0]) > 0.02


def test_the_contest_has_none_and_a_model_without_numbers_neither():
    assert build("deepfm", SCHEMA).scaling is None
    small = MODELS["wdl"].presets["small"]
    ids = dataclasses.replace(SCHEMA, columns=SCHEMA.columns[:1] + SCHEMA.columns[3:])
    assert build("wdl", ids, size=dataclasses.replace(small, scaled=True)).scaling is None


@pytest.mark.parametrize("through", ["step", "fit"])
def test_a_refused_step_leaves_the_statistics(through):
    model = scaled("dlrm", hyper=dataclasses.replace(MODELS["dlrm"].presets["small"].hyper, batch_size=64))
    optimizer = make_optimizer(model)
    features, labels = batch(64)
    bad = features | {"x": tf.constant(np.full(64, np.nan, np.float32))}
    if through == "step":
        step = train_step(model, optimizer)

        def run(features):
            step(features, labels)
    else:
        compile_model(model)

        def run(features):
            model.fit(features, labels, batch_size=64, verbose=0)

    run(features)
    before = [w.numpy() for w in model.weights]
    with pytest.raises(Exception, match=r"finite|NaN"):
        run(bad)
    for weight, value in zip(model.weights, before):
        np.testing.assert_array_equal(weight.numpy(), value, err_msg=weight.path)


def test_they_are_saved(tmp_path):
    model = scaled("mmoe")
    train_step(model, make_optimizer(model))(*batch(64))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.sizes.scaled and int(loaded.scaling.rows.value) == 64
    np.testing.assert_array_equal(loaded(batch(9)[0]), model(batch(9)[0]))

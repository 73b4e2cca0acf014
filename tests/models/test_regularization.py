"""Dropout and the L2 penalty: what they compute, when, and that a run goes on with them after it was saved."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ctrlab import training
from ctrlab.data import SCHEMAS
from ctrlab.embedding import embedding_variables
from ctrlab.model_names import DATA_SETS
from ctrlab.models import MODELS, build
from ctrlab.models.regularization import Dropout
from ctrlab.models.saving import description, from_description
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, Schema
from tests.few_columns import few

FULL = {"dropout": 0.3, "l2": 1e-3, "batch_norm": True}
IDS = Schema(
    "ids",
    (
        Label("y"),
        Categorical("a", buckets=2_000),
        Categorical("b", buckets=2_000),
        MultiHot("bag", buckets=2_000),
        Numeric("n", transform="log1p"),
    ),
    wide=("a", "b"),
)


def small(name):
    return few(SCHEMAS[DATA_SETS[name]]).with_buckets(100)


def sum_of_squares(arrays):
    return sum(float(np.sum(np.float64(array) ** 2)) for array in arrays)


@pytest.mark.parametrize("embedding", ["hashed", "variable"])
@pytest.mark.parametrize("name", ["wdl", "deepfm"])
def test_the_penalty_is_its_formula(name, embedding, batch):
    model = build(name, IDS, "none", embedding=embedding, l2=0.5)
    features, labels = batch(IDS, rows=32)
    optimizer = training.make_optimizer(model)
    for _ in range(2):  # linear weights begin at 0
        training.train_step(model, optimizer)(features, labels)
    read, real = [], model.embedding.lookup
    model.embedding.lookup = lambda *args, **kwargs: read.append(real(*args, **kwargs)) or read[-1]
    model(features, training=True)
    linear = model.wide if name == "wdl" else model.linear
    ids = model.encoder.ids(features)
    if embedding == "hashed":
        kernel = linear.kernel.numpy()
        places = [ids[c] % size + start for (c, size), start in zip(linear.sizes.items(), (0, next(iter(linear.sizes.values()))))]
        weights = [kernel[place] for place in places]
    else:
        weights = [linear.growing[column].lookup(ids[column]) for column in ("a", "b")]
    towers = [model.deep] if name == "wdl" else [model.deep, model.top, model.logit]
    kernels = [layer.kernel for tower in towers for layer in tower.layers] + [linear.number_kernel]
    expected = 0.5 * (sum_of_squares(kernels) + sum_of_squares(read[0]) + sum_of_squares(weights))
    assert sum_of_squares(weights) > 0 and float(tf.add_n(model.losses)) == pytest.approx(expected, rel=1e-5)
    model(features, training=False)
    assert model.losses == []


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_penalty_of_kernels_and_of_embeddings(name, batch):
    plain, penalized = build(name, small(name)), build(name, small(name), l2=0.1)
    rows = batch(plain.schema)
    added = float(training.loss_of(penalized, *rows, training=True)[0] - training.loss_of(plain, *rows, training=True)[0])
    assert added > 0
    for v in penalized.trainable_weights:
        if v.path.endswith("kernel") and v.path.startswith(("deep", "top", "bottom", "head", "tower", "logit")):
            v.assign(tf.zeros_like(v))
    penalized(rows[0], training=True)
    assert float(tf.add_n(penalized.losses)) > 0, "the embeddings' part is left"


@pytest.mark.parametrize("rungs", ["none", "all"])
def test_the_penalty_moves_only_rows_that_the_batch_reads(rungs):
    schema = Schema("two", (Label("y"), Categorical("c", 8, "identity"), MultiHot("bag", 8, "identity")), wide=("c",))
    model = build("deepfm", schema, rungs, l2=10.0)
    before = {name: table.numpy() for name, table in model.embedding.tables.items()}
    bag = tf.RaggedTensor.from_row_lengths(tf.constant([4, 5], tf.int64), [2, 0])
    features = {"c": tf.constant([1, 2], tf.int64), "bag": bag}
    training.train_step(model, training.make_optimizer(model))(features, tf.constant([[1.0], [0.0]]))
    for name, touched in (("c", {1, 2}), ("bag", {4, 5})):
        moved = np.any(model.embedding.tables[name].numpy() != before[name], axis=1)
        assert set(np.flatnonzero(moved)) == touched


def test_a_penalty_shrinks_what_is_learned(batch):
    sizes = []
    for l2 in (0.0, 0.3):
        model = build("deepfm", IDS, size="small", l2=l2)
        step, rows = training.train_step(model, training.make_optimizer(model)), batch(IDS)
        for _ in range(60):
            step(*rows)
        read = model.embedding.lookup(model.encoder.ids(rows[0]), pooled=[["a", "b", "bag"]])
        sizes.append((sum_of_squares(read), sum_of_squares(layer.kernel for layer in model.deep.layers)))
    assert all(after < 0.5 * before for before, after in zip(*sizes)), sizes


def test_dropout_keeps_the_mean_and_draws_new_masks_until_the_state_is_restored():
    drop = Dropout(0.25, seed=3, name="drop")
    drop.build()
    x = tf.ones((1_000, 40))
    first, second = drop(x).numpy(), drop(x).numpy()
    assert set(np.unique(first)) == {0, np.float32(1 / 0.75)}
    assert abs(first.mean() - 1) < 0.02 and abs((first == 0).mean() - 0.25) < 0.01
    assert 0.3 < (first != second).mean() < 0.45
    drop.drawn.assign(0)
    np.testing.assert_array_equal(drop(x), first)
    assert np.abs(np.corrcoef(first.T) - np.eye(40)).max() < 0.2, "columns are dropped independently"


@pytest.mark.parametrize("name", MODELS)
def test_dropout_acts_in_training_only(name, batch):
    model = build(name, small(name), dropout=0.5)
    plain, (features, _) = build(name, small(name)), batch(small(name))
    np.testing.assert_array_equal(model(features), plain(features))
    trained = [model(features, training=True).numpy() for _ in range(2)]
    assert np.any(trained[0] != trained[1]) and np.any(trained[0] != plain(features, training=True).numpy())


@pytest.mark.parametrize("name", MODELS)
def test_fit_adds_penalty_and_masks_as_our_step_does(name, batch):
    rows = [batch(small(name), seed=seed) for seed in range(3)]
    ours, theirs = (build(name, small(name), "all", size="small", **FULL) for _ in range(2))
    step = training.train_step(ours, training.make_optimizer(ours))
    losses = [float(step(*pair)) for pair in rows]
    dataset = tf.data.Dataset.from_tensors(rows[0])
    for pair in rows[1:]:
        dataset = dataset.concatenate(tf.data.Dataset.from_tensors(pair))
    found = training.compile_model(theirs).fit(dataset, shuffle=False, verbose=0).history["loss"]
    assert found[0] == pytest.approx(np.mean(losses), rel=1e-4)


@pytest.mark.parametrize("name, rungs", [*((name, "all") for name in MODELS), ("din", "none")])
def test_saved_and_loaded_it_goes_on_with_the_masks_that_come_next(name, rungs, batch, tmp_path):
    rows = batch(small(name))
    model = training.compile_model(build(name, small(name), rungs, size="small", dim=6, **FULL))
    model.fit(tf.data.Dataset.from_tensors(rows), verbose=0)
    model.save(path := tmp_path / "model.keras")
    loaded = keras.saving.load_model(path)
    assert loaded.sizes == model.sizes and loaded.sizes.dim == 6
    np.testing.assert_array_equal(loaded(rows[0]), model(rows[0]))
    losses = [m.fit(tf.data.Dataset.from_tensors(rows), verbose=0).history["loss"] for m in (model, loaded)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)
    again = from_description(description(model), "none" if rungs == "all" else "all")
    assert again.sizes == model.sizes and [v.path for v in again.weights] == [v.path for v in model.weights]


def test_what_earlier_versions_wrote_is_of_the_contests_sizes():
    config, described = build("dlrm").get_config(), description(build("dlrm"))
    del config["sizes"], described["sizes"]
    for model in (MODELS["dlrm"].from_config(config), from_description(described)):
        assert model.sizes == MODELS["dlrm"].presets["contest"]


def test_a_resumed_run_draws_the_masks_of_the_run_that_was_not_stopped(batch, tmp_path):
    rows = [batch(IDS, seed=seed) for seed in range(4)]

    def run(folder, batches, resume):
        model = build("deepfm", IDS, size="small", embedding="variable", **FULL)
        optimizer = training.make_optimizer(model)
        with training.Checkpoints(folder, model, optimizer, resume=resume) as checkpoints:
            losses = training.train(model, optimizer, batches, on_step=checkpoints).losses
            checkpoints.save_last()
        assert len(embedding_variables(model)) > 0
        return losses

    whole = run(tmp_path / "whole", rows, resume=False)
    parts = run(tmp_path / "parts", rows[:2], resume=False) + run(tmp_path / "parts", rows[2:], resume=True)
    np.testing.assert_allclose(parts, whole, rtol=1e-6)

"""The dense tower under the rungs "subgraphs" and "bf16": training, evaluation, moving statistics, precision."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ctrlab.models import blocks

RUNGS = [(), ("subgraphs",), ("bf16",), ("subgraphs", "bf16")]


def tower(rungs, batch_norm=True):
    return blocks.Tower(20, (33, 16, 1), blocks.Seeds(0), name="tower", batch_norm=batch_norm, linear_top=True, rungs=rungs)


def x(rows=64, seed=0):
    return tf.constant(np.random.default_rng(seed).standard_normal((rows, 20), dtype=np.float32))


def tolerance(rungs):
    return 0.05 if "bf16" in rungs else 1e-5  # bfloat16 has 8 bits; batch norm makes more of what is lost


def statistics(of):
    return {v.path: np.asarray(v) for v in of.non_trainable_variables}


@pytest.mark.parametrize("rungs", RUNGS[1:])
def test_training_moves_statistics_as_keras_does_and_evaluation_reads_them(rungs):
    stock, other = tower(()), tower(rungs)
    for seed in range(3):
        for one in (stock, other):
            one(x(seed=seed), training=True)
    expected, received = statistics(stock), statistics(other)
    assert expected.keys() == received.keys() and len(expected) == 4, "the linear top has no normalization"
    for path, value in expected.items():
        np.testing.assert_allclose(received[path], value, rtol=tolerance(rungs), atol=tolerance(rungs))
    np.testing.assert_allclose(other(x()), stock(x()), rtol=0, atol=tolerance(rungs))
    assert all(np.array_equal(a, b) for a, b in zip(statistics(other).values(), received.values())), "evaluation moves nothing"


@pytest.mark.parametrize("rungs", RUNGS)
@pytest.mark.parametrize("batch_norm", [True, False])
def test_what_is_kept_and_what_comes_out_is_float32(rungs, batch_norm):
    one = tower(rungs, batch_norm)
    with tf.GradientTape() as tape:
        out = one(x(), training=True)
    gradients = tape.gradient(out, [v.value for v in one.trainable_variables])
    assert {out.dtype, *(g.dtype for g in gradients), *(v.value.dtype for v in one.variables)} == {tf.float32}


def products(one):
    """Types of a call's matrix products, in order."""
    graph = tf.function(lambda x: one(x)).get_concrete_function(tf.TensorSpec([4, 20])).graph
    return [op.outputs[0].dtype for op in graph.get_operations() if op.type == "MatMul"]


def test_bf16_multiplies_all_layers_but_the_linear_top_in_bfloat16():
    assert products(tower(())) == [tf.float32] * 3
    assert products(tower(("bf16",))) == [tf.bfloat16, tf.bfloat16, tf.float32]


def test_bf16_is_near_float32_and_not_the_same():
    expected, received = tower((), batch_norm=False)(x()).numpy(), tower(("bf16",), batch_norm=False)(x()).numpy()
    gap = np.linalg.norm(received - expected) / np.linalg.norm(expected)
    assert 1e-4 < gap < 2e-2


@pytest.mark.parametrize("rungs", RUNGS)
def test_a_tower_trains_in_keras_fit(rungs):
    model = keras.Sequential([keras.Input((20,)), tower(rungs)])
    model.compile(keras.optimizers.Adam(0.01), keras.losses.MeanSquaredError())
    features = x(256)
    target = tf.reduce_sum(features[:, :3], axis=1, keepdims=True)
    history = model.fit(features, target, batch_size=64, epochs=4, verbose=0).history["loss"]
    assert history[-1] < 0.7 * history[0]


def test_bf16_moves_auc_by_less_than_seeds_do(small_batches):
    from ctrlab.models import build
    from ctrlab.training import evaluate, get_state, make_optimizer, predict_step, set_state, train, train_step

    schema, batches = small_batches("food_delivery")
    sides = {}
    for rungs in ("none", "bf16"):
        model = build("wdl", schema, rungs)
        optimizer = make_optimizer(model)
        step = train_step(model, optimizer)
        sides[rungs] = model, optimizer, step, predict_step(model), get_state(model, optimizer)
    auc = {rungs: [] for rungs in sides}
    for seed in range(5):
        fresh = get_state(build("wdl", schema, seed=seed))
        for rungs, (model, optimizer, step, predict, start) in sides.items():
            set_state(start | fresh, model, optimizer)
            train(model, optimizer, batches[:6] * 2, step=step)
            auc[rungs].append(np.mean(list(evaluate(model, batches[6:], predict).auc.values())))
    gaps = np.subtract(auc["bf16"], auc["none"])
    assert np.any(gaps != 0) and np.abs(gaps).max() < 0.03 and abs(gaps.mean()) < max(np.ptp(auc["none"]), 0.01), (gaps, auc)

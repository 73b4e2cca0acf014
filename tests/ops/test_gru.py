"""GRU and AUGRU beside `test_op.py`: what the definition means, histories of every kind, bits, odd numbers, refusals."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from on_tensors import flat_gru

from ctrlab import _native
from ctrlab.ops import gru
from ctrlab.ops.references.arrays import Events

fused = flat_gru(gru.fused)


def test_reference_by_hand():
    # All kernels zero: r = u = 1/2 whatever comes, and the candidate is tanh(1).
    zero = np.zeros
    events, weights = Events.of([2], zero((2, 1))), (zero((2, 2)), zero(2), zero((2, 1)), np.ones(1))
    outputs, last = gru.OP.reference(events, *weights)
    first = 0.5 * np.tanh(1)
    second = 0.5 * first + 0.5 * np.tanh(1)
    np.testing.assert_allclose(outputs.flat[:, 0], [first, second])
    np.testing.assert_allclose(last, [[second]])
    # Attention 1 closes the update gate: the state is the candidate at once. Attention 0 is a plain GRU.
    ones = gru.OP.reference(events, *weights, Events.of([2], np.ones(2)))
    np.testing.assert_allclose(ones[1], [[np.tanh(1)]])


def test_agrees_with_keras_reset_before():
    x, _, weights, *_ = ragged([5] * 4, 3, 2, False)
    gates, gates_bias, candidate, candidate_bias = map(np.asarray, weights)
    layer = tf.keras.layers.GRU(2, reset_after=False, return_sequences=True, return_state=True)
    layer.build((4, 5, 3))
    # Keras keeps [update, reset, candidate], split into input and state rows.
    joined = np.concatenate([gates[:, 2:], gates[:, :2], candidate], axis=1)
    layer.set_weights([joined[:3], joined[3:], np.concatenate([gates_bias[2:], gates_bias[:2], candidate_bias])])
    outputs, last = layer(tf.reshape(x, (4, 5, 3)))
    want_outputs, want_last = gru.OP.reference(Events.of([5] * 4, x), *map(np.asarray, weights))
    np.testing.assert_allclose(tf.reshape(outputs, (20, 2)), want_outputs.flat, atol=1e-5)
    np.testing.assert_allclose(last, want_last, atol=1e-5)


def ragged(lengths, width, hidden, attended, seed=0):
    """x [N, C], splits, weights, attention [N] or None, d_outputs [N, H], d_last [B, H]; a model's sizes of numbers."""
    rng = np.random.default_rng(seed)
    splits = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    count, joined = splits[-1], width + hidden
    spread = np.sqrt(2 / (joined + hidden))
    weights = [
        rng.normal(size=(joined, 2 * hidden), scale=spread),
        rng.normal(size=2 * hidden) + 1,
        rng.normal(size=(joined, hidden), scale=spread),
        rng.normal(size=hidden),
    ]
    flat = [rng.normal(size=(count, width)), *weights, rng.random(count) if attended else None]
    x, *weights, attention = [None if a is None else tf.constant(a, tf.float32) for a in flat]
    up = [tf.constant(rng.normal(size=shape), tf.float32) for shape in [(count, hidden), (len(lengths), hidden)]]
    return x, tf.constant(splits), weights, attention, *up


def run(way, x, splits, weights, attention, d_outputs, d_last):
    """outputs, last, then the gradients of x, the weights and the attention (None without)."""
    arguments = [x, *weights, attention]
    with tf.GradientTape() as tape:
        tape.watch([a for a in arguments if a is not None])
        outputs, last = flat_gru(way)(x, splits, *weights, attention)
        loss = tf.reduce_sum(outputs * d_outputs) + tf.reduce_sum(last * d_last)
    gradients = tape.gradient(loss, [a for a in arguments if a is not None])
    return [outputs, last, *map(tf.convert_to_tensor, gradients), *([] if attention is not None else [None])]


run_fused, run_baseline = functools.partial(run, gru.fused), tf.function(functools.partial(run, gru.baseline))


def by_reference(x, splits, weights, attention, d_outputs, d_last):
    x, *weights, splits, d_outputs, d_last = map(np.asarray, (x, *weights, splits, d_outputs, d_last))
    weights = [w.astype(np.float64) for w in weights]
    given = Events(splits, x), *weights, None if attention is None else Events(splits, np.asarray(attention, np.float64))
    outputs, last = gru.OP.reference(*given)
    return [outputs.flat, last, *gru.OP.reference_gradient(*given, d_out=(d_outputs, d_last))]


NAMES = ["outputs", "last", "d_x", "d_gates_kernel", "d_gates_bias", "d_candidate_kernel", "d_candidate_bias", "d_attention"]


def same(received, expected, tolerance=5e-6):
    """Norm-wise: a float32 sum over a history rounds a few hundred times; terms of size 1 that cancel leave their rounding."""
    for name, got, want in zip(NAMES, received, expected, strict=True):
        if want is None:
            assert got is None, name
            continue
        got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
        assert got.shape == want.shape, name
        assert np.linalg.norm(got - want) <= tolerance * (np.linalg.norm(want) + np.sqrt(want.size)), name


HISTORIES = {
    "one row": [3],
    "one position": [1],
    "rows of length 0": [0, 2, 0, 0, 1],
    "nothing but empty rows": [0, 0],
    "no rows": [],
    "more rows than a block": [(7 * b) % 5 for b in range(70)],
    "one long row": [1, 40, 0, 2],
}


@pytest.mark.parametrize("attended", [False, True])
@pytest.mark.parametrize("width,hidden", [(1, 1), (3, 2), (16, 16), (17, 33)])
@pytest.mark.parametrize("case", HISTORIES)
def test_fused_is_the_reference_on_adversarial_histories(case, width, hidden, attended):
    batch = ragged(HISTORIES[case], width, hidden, attended)
    same(run_fused(*batch), by_reference(*batch))


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 4), min_size=1, max_size=34),
    width=st.sampled_from([1, 2, 15, 16, 20, 36]),
    hidden=st.sampled_from([1, 3, 16, 18, 36]),
    attended=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_fused_is_the_reference_on_any_batch(lengths, width, hidden, attended, seed):
    batch = ragged(lengths, width, hidden, attended, seed)
    same(run_fused(*batch), by_reference(*batch))


@pytest.mark.parametrize("attended", [False, True])
def test_fused_is_the_baseline_at_the_models_size(attended):
    lengths = np.random.default_rng(0).integers(0, 50, 300)
    batch = ragged(lengths, 36, 36, attended)
    same(run_fused(*batch), run_baseline(*batch), tolerance=1e-5)


def test_attention_of_0_is_no_attention_and_of_1_closes_the_update_gate():
    x, splits, weights, _, *_ = ragged([4, 0, 3], 5, 6, False)
    plain, open_ = (fused(x, splits, *weights, a) for a in (None, tf.zeros(7)))
    for one, other in zip(plain, open_):
        np.testing.assert_array_equal(one, other)
    outputs, _ = fused(x, splits, *weights, tf.ones(7))
    _, _, gates = raw(x, splits, weights, [tf.ones(7)])
    np.testing.assert_array_equal(outputs, gates[:, 12:])


def test_extreme_numbers_saturate():
    x, splits, weights, attention, d_outputs, d_last = ragged([3, 2], 4, 4, True)
    for scale in (1e4, 1e30, 3e38):
        outputs, *rest = run_fused(scale * tf.sign(x), splits, weights, attention, d_outputs, d_last)
        assert np.all(np.abs(outputs) <= 1)
        assert all(np.all(np.isfinite(r)) for r in rest[1:2])


def test_a_nan_stays_in_its_row():
    x, splits, weights, attention, *_ = ragged([3] * 40, 4, 4, True)
    x = tf.tensor_scatter_nd_update(x, [[4, 0]], [np.nan])  # row 1, position 1
    outputs, last = fused(x, splits, *weights, attention)
    assert np.isnan(outputs[4:6]).all() and np.isnan(last[1]).all()
    assert not np.isnan(np.delete(outputs, [4, 5], axis=0)).any()


def test_fused_gives_the_same_bits_each_time():
    batch = ragged(np.random.default_rng(1).integers(0, 30, 500), 36, 36, True)
    first, *others = [run_fused(*batch) for _ in range(4)]
    for other in others:
        for a, b in zip(first, other):
            np.testing.assert_array_equal(a, b)


def test_the_order_of_rows_does_not_matter():
    x, splits, weights, attention, *_ = ragged([2, 0, 5, 1], 3, 4, True)
    pieces = [(x[a:b], attention[a:b]) for a, b in itertools.pairwise(splits)]
    _, last = fused(x, splits, *weights, attention)
    turned = pieces[::-1]
    ends = np.concatenate([[0], np.cumsum([len(p[0]) for p in turned])])
    joined = tf.concat([p[0] for p in turned], 0), ends, *weights, tf.concat([p[1] for p in turned], 0)
    np.testing.assert_array_equal(fused(*joined)[1][::-1], last)


def test_fused_works_in_a_traced_function_of_unknown_batch_size():
    x, splits, weights, attention, *_ = ragged([2, 0, 3], 3, 4, True)
    specs = [tf.TensorSpec([None, 3]), tf.TensorSpec([None], tf.int64), tf.TensorSpec([None])]

    @tf.function(input_signature=specs)
    def traced(x, splits, attention):
        outputs, last = fused(x, splits, *weights, attention)
        assert outputs.shape.as_list() == last.shape.as_list() == [None, 4]
        return outputs, last

    for got, want in zip(traced(x, splits, attention), fused(x, splits, *weights, attention)):
        np.testing.assert_array_equal(got, want)


def raw(x, splits, weights, attention):
    names = ["gates_kernel", "gates_bias", "candidate_kernel", "candidate_bias"]
    return _native.library().ops.ctrlab_gru(x=x, splits=splits, attention=attention, **dict(zip(names, weights)))


def zeros(*shape):
    return tf.zeros(shape)


GOOD = dict(x=zeros(3, 2), splits=[0, 1, 3], weights=[zeros(5, 6), zeros(6), zeros(5, 3), zeros(3)], attention=[zeros(3)])
REFUSED = {
    "x of rank 1": (dict(x=zeros(3)), "rank 2|positions, inputs"),
    "x without inputs": (dict(x=zeros(3, 0)), r"at least one input; received \[3,0\]"),
    "no splits": (dict(splits=[]), "vector of one more|-1"),
    "splits that start late": (dict(splits=[1, 2, 3]), "start at 0; received 1"),
    "splits that go down": (dict(splits=[0, 2, 1]), "not go down; received 1 after 2 in row 1"),
    "splits that end early": (dict(splits=[0, 1, 2]), "end at its 3.*received 2"),
    "splits that go past the end": (dict(splits=[0, 1, 2**40]), "end at its 3"),
    "a gates' kernel of other rows": (
        dict(weights=[zeros(4, 6), *GOOD["weights"][1:]]),
        r"gates' kernel must be \[5,6\].*\[4,6\]",
    ),
    "a gates' kernel of other columns": (dict(weights=[zeros(5, 3), *GOOD["weights"][1:]]), r"gates' kernel must be \[5,6\]"),
    "a gates' bias of other length": (dict(weights=[zeros(5, 6), zeros(3), *GOOD["weights"][2:]]), r"gates' bias must be \[6\]"),
    "a candidate's kernel of other rows": (
        dict(weights=[*GOOD["weights"][:2], zeros(3, 5), zeros(3)]),
        r"candidate's kernel must be \[5,3\]; received \[3,5\]",
    ),
    "a candidate's bias of rank 2": (dict(weights=[*GOOD["weights"][:3], zeros(1, 3)]), "rank 1|hidden"),
    "no hidden": (dict(weights=[zeros(2, 0), zeros(0), zeros(2, 0), zeros(0)]), "at least one number"),
    "attention of other length": (dict(attention=[zeros(2)]), r"attention must be \[3\]; received \[2\]"),
    "attention of rank 2": (dict(attention=[zeros(3, 1)]), r"attention must be \[3\]; received \[3,1\]"),
    "two attentions": (dict(attention=[zeros(3), zeros(3)]), "one attention or none; received 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_inputs_are_refused(case):
    change, message = REFUSED[case]
    given = GOOD | change
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
        raw(given["x"], tf.constant(given["splits"], tf.int64), given["weights"], given["attention"])


@pytest.mark.parametrize("wrong", ["outputs", "gates", "d_outputs", "d_last"])
def test_a_gradient_of_another_shape_is_refused(wrong):
    names = ["gates_kernel", "gates_bias", "candidate_kernel", "candidate_bias"]
    given = dict(outputs=zeros(3, 3), gates=zeros(3, 9), d_outputs=zeros(3, 3), d_last=zeros(2, 3)) | {wrong: zeros(3, 4)}
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"{wrong} must be .*; received \[3,4\]"):
        _native.library().ops.ctrlab_gru_gradient(
            x=GOOD["x"],
            splits=tf.constant(GOOD["splits"], tf.int64),
            attention=[],
            **dict(zip(names, GOOD["weights"])),
            **given,
        )


def test_wrong_dtypes_are_refused():
    x, splits, weights, *_ = ragged([2, 1], 3, 4, False)
    with pytest.raises((tf.errors.InvalidArgumentError, TypeError, ValueError)):
        fused(tf.cast(x, tf.float64), splits, *weights)
    with pytest.raises((tf.errors.InvalidArgumentError, TypeError, ValueError)):
        fused(x, tf.cast(splits, tf.int32), *weights)

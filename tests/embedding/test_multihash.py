"""Multi-hash: keys and embeddings against their definition, codes that are unique, and how often ids collide."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab.embedding import multihash
from ctrlab.embedding.choices import OPERATIONS, ORDERS, BinaryCode, Hashed, QuotientRemainder
from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.ops import lookup
from ctrlab.schema import RAW_IDS

CHOICES = [QuotientRemainder(rows=rows, operation=how) for rows in (7, 40) for how in OPERATIONS]
CHOICES += [BinaryCode(rows=40, operation=how, blocks=n, order=o) for how in OPERATIONS for n in (2, 3) for o in ORDERS]
CHOICES += [Hashed(), Hashed(rows=13)]
EDGES = [0, 1, RAW_IDS - 1, RAW_IDS // 2, 1 << 62, (1 << 53) + 1]


def codes(parts, ids):
    return np.stack(multihash.reference_keys(parts, ids), axis=1)


def names(choice):
    return str(choice).replace("compression=20.0, ", "")


@pytest.mark.parametrize("choice", CHOICES, ids=names)
def test_keys_are_those_of_the_definition_and_lie_in_their_tables(choice):
    parts = multihash.parts(choice, 1_000, 6)
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 1_000, 300) if choice == Hashed() else np.concatenate([EDGES, rng.integers(0, RAW_IDS, 300)])
    expected = multihash.reference_keys(parts, ids)
    for rows, keys, made in zip(parts.rows, expected, multihash.keys(parts, tf.constant(ids)), strict=True):
        np.testing.assert_array_equal(made, keys)
        assert keys.min() >= 0 and keys.max() < rows
    ragged = tf.RaggedTensor.from_row_lengths(ids, [0, 5, len(ids) - 5, 0])
    for keys, made in zip(expected, multihash.keys(parts, ragged), strict=True):
        np.testing.assert_array_equal(made.row_splits, ragged.row_splits)
        np.testing.assert_array_equal(made.values, keys)


def test_keys_of_a_worked_example():
    parts = multihash.parts(QuotientRemainder(rows=7), 12, 2)
    assert parts.rows == (4, 3)
    np.testing.assert_array_equal(codes(parts, [0, 3, 4, 11, 12]), [[0, 0], [3, 0], [0, 1], [3, 2], [0, 0]])
    ids = [0b101100, 0b110]
    for order, expected in (("succession", [[0b100, 0b101], [0b110, 0]]), ("skip", [[0b010, 0b110], [0b10, 0b1]])):
        parts = multihash.parts(BinaryCode(rows=16, blocks=2, order=order), 64, 2)
        assert parts.rows == (8, 8)
        np.testing.assert_array_equal(codes(parts, ids), expected)


@pytest.mark.parametrize("choice", [c for c in CHOICES if c != Hashed()], ids=names)
def test_as_many_ids_as_codes_have_a_code_each(choice):
    parts = multihash.parts(choice, 1_000, 6)
    ids = np.arange(parts.codes)
    assert len(np.unique(codes(parts, ids), axis=0)) == parts.codes
    assert multihash.collision_rate(multihash.reference_keys(parts, ids)) == 0.0
    np.testing.assert_array_equal(codes(parts, ids), codes(parts, ids + 7 * parts.codes))


@given(m=st.integers(2, 2_000), first=st.integers(0, 1 << 40))
@settings(max_examples=50, deadline=None)
def test_quotient_remainder_pairs_are_unique_in_any_run_of_ids(m, first):
    parts = multihash.parts(QuotientRemainder(rows=2 * m), 1, 2)
    ids = first + np.arange(min(parts.codes, 3_000))
    assert len(np.unique(codes(parts, ids), axis=0)) == len(ids)


@pytest.mark.parametrize("op", [lookup.baseline, lookup.fused], ids=["stock", "fused"])
@pytest.mark.parametrize("choice", CHOICES, ids=names)
def test_embeddings_and_gradients(choice, op):
    """Looks up a row of each id through the op, and compares the gradient with finite differences of the reference."""
    parts = multihash.parts(choice, 100, 4)
    rng = np.random.default_rng(3)
    ids = rng.integers(0, 100 if choice == Hashed() else RAW_IDS, 12)
    ids[5] = ids[2]
    tables = [tf.Variable(rng.normal(size=shape).astype("f4")) for shape in zip(parts.rows, parts.dims)]
    one = parts.operation == "concat"
    n = len(tables)
    layout = lookup.Layout(tuple(range(n)), ("rows",) * n, (0,) * n if one else tuple(range(n)))
    with tf.GradientTape() as tape:
        embedded = multihash.join(parts, op(tables, multihash.keys(parts, tf.constant(ids)), layout))
        d_out = rng.normal(size=embedded.shape)
        loss = tf.reduce_sum(embedded * d_out)
    gradients = [tf.convert_to_tensor(g).numpy() for g in tape.gradient(loss, tables)]
    values = [t.numpy().astype(np.float64) for t in tables]
    np.testing.assert_allclose(embedded, multihash.reference(parts, values, ids), rtol=1e-5, atol=1e-6)
    for k, (value, gradient) in enumerate(zip(values, gradients)):
        row = multihash.reference_keys(parts, ids)[k][5]
        untouched = np.setdiff1d(np.arange(len(value)), multihash.reference_keys(parts, ids)[k])
        assert not gradient[untouched].any()
        for place in range(value.shape[1]):
            moved = [v.copy() for v in values]
            moved[k][row, place] += 1e-3
            up = np.sum(multihash.reference(parts, moved, ids) * d_out)
            moved[k][row, place] -= 2e-3
            down = np.sum(multihash.reference(parts, moved, ids) * d_out)
            np.testing.assert_allclose(gradient[row, place], (up - down) / 2e-3, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_size_follows_the_compression(operation):
    for choice in (QuotientRemainder(20, operation=operation), BinaryCode(20, operation=operation, blocks=4)):
        parts = multihash.parts(choice, 100_000, 16)
        assert parts.size <= 100_000 * 16 / 20
        assert parts.size > 100_000 * 16 / 20 / 2
        assert parts.codes > 100_000
    assert multihash.parts(QuotientRemainder(20, operation=operation), 100_000, 16).size == 100_000 * 16 / 20
    assert sum(multihash.parts(BinaryCode(20, operation="concat", blocks=4), 100_000, 18).dims) == 18


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("choice", [QuotientRemainder, BinaryCode])
def test_first_embeddings_have_the_deviation_asked_for(choice, operation):
    parts = multihash.parts(choice(rows=2_000, operation=operation), 1, 16)
    rng = np.random.default_rng(0)
    tables = [rng.normal(0, parts.deviation(0.05), shape) for shape in zip(parts.rows, parts.dims)]
    np.testing.assert_allclose(multihash.reference(parts, tables, rng.integers(0, RAW_IDS, 4_000)).std(), 0.05, rtol=0.1)


@pytest.mark.parametrize("ids, buckets", [(500, 100), (2_000, 10_000), (100, 100_000)])
def test_hashed_ids_collide_as_often_as_expected(ids, buckets):
    parts = multihash.parts(Hashed(rows=buckets), 1, 2)
    rng = np.random.default_rng(4)
    rates = [multihash.collision_rate(multihash.reference_keys(parts, rng.integers(0, RAW_IDS, ids))) for _ in range(100)]
    expected = multihash.expected_collision_rate(ids, parts.codes)
    assert abs(np.mean(rates) - expected) < 4 * np.std(rates) / 10 + 1e-12


def test_multihash_tells_hashed_ids_apart():
    ids = np.random.default_rng(5).integers(0, RAW_IDS, 50_000)
    hashed = multihash.collision_rate(multihash.reference_keys(multihash.parts(Hashed(rows=100_000), 1, 16), ids))
    for choice in (QuotientRemainder(20), BinaryCode(20, blocks=2, order="skip")):
        parts = multihash.parts(choice, 100_000, 16)
        rate = multihash.collision_rate(multihash.reference_keys(parts, ids))
        assert rate < 0.05 < 0.3 < hashed
        np.testing.assert_allclose(rate, multihash.expected_collision_rate(len(ids), parts.codes), rtol=0.3)


def test_rates_at_the_ends():
    assert multihash.collision_rate([np.zeros(0, np.int64)]) == 0.0
    assert multihash.collision_rate([np.array([3, 3]), np.array([1, 2])]) == 0.0
    assert multihash.collision_rate([np.array([3, 3, 4]), np.array([1, 1, 1])]) == pytest.approx(2 / 3)
    assert multihash.expected_collision_rate(1, 1) == 0.0
    assert multihash.expected_collision_rate(2, 1) == 1.0


def test_what_can_not_be_is_refused():
    with pytest.raises(CtrlabError, match=r"2 parts need two rows each.*received 3 rows"):
        multihash.parts(QuotientRemainder(rows=3), 10, 4)
    with pytest.raises(CtrlabError, match="one number per row; received 50 rows of D = 2"):
        multihash.parts(BinaryCode(rows=50, operation="concat", blocks=3), 10, 2)
    with pytest.raises(UnknownName, match="Unknown operation 'sum'"):
        QuotientRemainder(operation="sum")
    with pytest.raises(UnknownName, match="Unknown order of bits"):
        BinaryCode(order="skipped")
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(CtrlabError, match="compression must be positive"):
            QuotientRemainder(wrong)
    for wrong in (0, -5):
        with pytest.raises(CtrlabError, match="rows must be at least 1"):
            Hashed(rows=wrong)
    with pytest.raises(CtrlabError, match="1 to 8 blocks; received 9"):
        BinaryCode(blocks=9)

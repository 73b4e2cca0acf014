"""Attention of queries and keys far from 0 and near each other, where a product taken apart would cancel."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from on_tensors import flat_attention

from ctrlab import _native
from ctrlab.ops import attention

SPLITS = np.array([0, 3, 3, 10, 80, 81])
STOCK, FUSED = flat_attention(attention.best_stock), flat_attention(attention.fused)
WIDTHS = [(5, 12), (18, 80), (36, 80)]


def batch(width, offset, of_queries, of_keys, seed=0):
    """Around an offset that all have in common, or a share of it a row."""
    rng = np.random.default_rng(seed)
    lengths, common = np.diff(SPLITS), offset * rng.normal(size=width)
    query = rng.normal(size=(len(lengths), width)) + np.reshape(of_queries, (-1, 1)) * common
    keys = rng.normal(size=(SPLITS[-1], width)) + np.repeat(of_keys, lengths)[:, None] * common
    return query.astype(np.float32), keys.astype(np.float32)


def first_kernel(width, units, offset, parts, seed=1):
    """[Wq; Wk; Wd; Wp] by whose parts sums of these queries and keys stay moderate."""
    kernel = np.random.default_rng(seed).normal(size=(4, width, units)) / np.sqrt(width)
    scales = {"differences": (0, 0, 1, 0), "all": (1 / offset, 1 / offset, 1, offset**-2)}[parts]
    return (kernel * np.reshape(scales, (4, 1, 1))).reshape(4 * width, units).astype(np.float32)


def everything(implementation, query, keys, layers, upstream, dtype):
    arrays = [tf.constant(a, dtype) for a in (query, keys, *(part for layer in layers for part in layer))]
    with tf.GradientTape() as tape:
        tape.watch(arrays)
        outputs = implementation(arrays[0], arrays[1], SPLITS, list(zip(arrays[2::2], arrays[3::2])))
    found = tape.gradient(outputs, arrays, output_gradients=[tf.constant(u, dtype) for u in upstream])
    return [np.asarray(tf.convert_to_tensor(x), np.float64) for x in (*outputs, *found)]


NAMES = ["weights", "attended", "d_query", "d_keys", "d_kernel 0", "d_bias 0", "d_kernel 1", "d_bias 1", "d_kernel 2"]


@pytest.mark.parametrize("parts", ["differences", "all"])
@pytest.mark.parametrize("offset", [1, 10, 100, 1e3, 1e4, 1e5])
@pytest.mark.parametrize("size", WIDTHS, ids=str)
def test_what_queries_and_keys_share_is_not_lost(size, offset, parts):
    width, units = size
    has_it = np.array([1, 0, 0, 1, 1])
    query, keys = batch(width, offset, has_it, has_it)
    rng = np.random.default_rng(2)
    sizes = [units, 6, 1]
    layers = [(first_kernel(width, units, offset, parts), rng.normal(size=units))]
    layers += [(rng.normal(size=(i, o)) / np.sqrt(i), rng.normal(size=o)) for i, o in itertools.pairwise(sizes)]
    # Of the weights alone: d_attended * keys cancels in the softmax, as it does in the stock ops.
    upstream = rng.normal(size=len(keys)), np.zeros(query.shape)
    layers = [tuple(part.astype(np.float32) for part in layer) for layer in layers]
    upstream = [u.astype(np.float32) for u in upstream]
    truth = everything(STOCK, query, keys, layers, upstream, tf.float64)
    ours = everything(FUSED, query, keys, layers, upstream, tf.float32)
    theirs = everything(STOCK, query, keys, layers, upstream, tf.float32)
    part = [a.reshape(4, width, units) for a in (truth[4], ours[4], theirs[4])]  # each part of the first layer's for itself
    found = list(zip(NAMES, truth, ours, theirs)) + [(f"d_W{name}", *p) for name, p in zip("qkdp", zip(*part))]
    for name, exact, mine, stock in found:
        mine, stock = (np.linalg.norm(x - exact) / np.linalg.norm(exact) for x in (mine, stock))
        assert mine <= max(2e-6, 6 * stock), f"{name}: {mine:.2g}, stock {stock:.2g}"


@settings(max_examples=60, deadline=None)
@given(
    size=st.sampled_from(WIDTHS),
    offset=st.floats(0, 6).map(lambda x: 10**x),
    share=st.lists(st.floats(-1, 2) | st.sampled_from([0, 0.7, 0.8, 1, 1.3]), min_size=5, max_size=5),
    scales=st.lists(st.sampled_from([0, 1e-6, 1, 1e3]), min_size=4, max_size=4),
    seed=st.integers(0, 99),
)
def test_a_sum_is_within_6_times_the_bound_of_the_product_with_all_four(size, offset, share, scales, seed):
    width, _ = size
    query, keys = batch(width, offset, np.ones(5), np.array(share), seed)
    kernel = (np.random.default_rng(seed).normal(size=(4, width, 1)) * np.reshape(scales, (4, 1, 1))).astype(np.float32)
    raw = _native.library().ops.ctrlab_attention(
        query=query, keys=keys, splits=SPLITS, kernels=[kernel.reshape(-1, 1)], biases=[np.zeros(1, np.float32)]
    )
    sums = np.asarray(raw[2], np.float64).reshape(len(keys), -1)[:, 0]
    row_of = np.repeat(np.arange(len(query)), np.diff(SPLITS))
    q, k = query.astype(np.float64)[row_of], keys.astype(np.float64)
    pairs = [(x, w.astype(np.float64)) for x, w in zip((q, k, q - k, q * k), kernel[:, :, 0])]
    exact = sum(x @ w for x, w in pairs)
    norms = [
        (np.linalg.norm(x, axis=1), np.linalg.norm(w)) for x, w in ((q, pairs[0][1]), (k, pairs[1][1]), (q - k, pairs[2][1]))
    ]
    norms += [(np.linalg.norm(q, axis=1) * np.linalg.norm(k, axis=1), np.linalg.norm(pairs[3][1]))]
    bound = width * 2.0**-24 * sum(x * w for x, w in norms)
    largest = np.array([bound[row_of == b].max() for b in row_of])
    assert (np.abs(sums - exact) <= 6 * largest).all()

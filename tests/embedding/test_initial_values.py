"""The hash and the initial values: the engine's against NumPy's, and both against what they are said to be."""

import ctypes
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab import _native
from ctrlab.embedding.initial_values import WITHIN_TWO, hash_keys, initial_values
from ctrlab.embedding.options import INITIALIZERS, Initializer
from ctrlab.errors import CtrlabError

KEYS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20)


def native_values(initializer: Initializer, keys: np.ndarray, dim: int) -> np.ndarray:
    out = np.full((len(keys), dim), np.nan, np.float32)
    fill = _native.library().c.ctrlab_initial_values
    kind, a, b = INITIALIZERS.index(initializer.kind), ctypes.c_double(initializer.a), ctypes.c_double(initializer.b)
    fill(
        ctypes.c_int64(kind),
        a,
        b,
        ctypes.c_uint64(initializer.seed),
        keys.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_int64(len(keys)),
        ctypes.c_int64(dim),
        out.ctypes.data_as(ctypes.c_void_p),
    )
    return out


@settings(deadline=None)
@given(KEYS, st.integers(0, 2**63 - 1), st.integers(1, 40), st.floats(-3, 3), st.floats(0, 3))
def test_uniform_values_have_the_same_bits(keys, seed, dim, a, width):
    keys, initializer = np.array(keys, np.int64), Initializer("uniform", a, a + width, seed)
    assert np.array_equal(native_values(initializer, keys, dim), initial_values(initializer, keys, dim))


@pytest.mark.parametrize("kind", ["constant", "normal", "truncated_normal"])
@settings(deadline=None)
@given(keys=KEYS, seed=st.integers(0, 2**63 - 1), dim=st.integers(1, 40), a=st.floats(-3, 3), b=st.floats(0, 3))
def test_other_values_agree(kind, keys, seed, dim, a, b):
    keys, initializer = np.array(keys, np.int64), Initializer(kind, a, b, seed)
    received, expected = native_values(initializer, keys, dim), initial_values(initializer, keys, dim)
    np.testing.assert_allclose(received, expected, rtol=1e-6, atol=1e-6 * (abs(a) + b))


@given(KEYS)
def test_the_hash_is_the_engines(keys):
    hash_key = _native.library().c.ctrlab_hash_key
    hash_key.restype = ctypes.c_uint64
    assert [hash_key(ctypes.c_int64(key)) for key in keys] == hash_keys(np.array(keys, np.int64)).tolist()


def cut_normal(x: np.ndarray) -> list[float]:
    return [(NormalDist().cdf(value) - 0.5) / WITHIN_TWO + 0.5 for value in x]


@pytest.mark.parametrize(
    "kind, distribution",
    [("uniform", lambda x: x), ("normal", lambda x: [NormalDist().cdf(v) for v in x]), ("truncated_normal", cut_normal)],
)
def test_values_have_their_distribution(kind, distribution):
    """Kolmogorov and Smirnov's distance over a million draws; 2.0 / sqrt(n) would be passed by chance once in 1,500 times."""
    a, b = (0.0, 1.0)
    values = np.sort(native_values(Initializer(kind, a, b, seed=5), np.arange(-31_250, 31_250), 16).ravel().astype(float))
    some = np.linspace(0, len(values) - 1, 20_000).astype(int)
    distance = np.abs(np.array(distribution(values[some])) - (some + 0.5) / len(values)).max()
    assert distance < 2.0 / np.sqrt(len(values))


@pytest.mark.parametrize(
    "initializer, variance",
    [
        (Initializer.glorot_uniform(3, 5), 2 / 8),
        (Initializer.glorot_normal(3, 5), 2 / 8),
        (Initializer.he_uniform(3), 2 / 3),
        (Initializer.he_normal(3), 2 / 3),
    ],
)
def test_glorot_and_he_have_the_variance_of_their_fans(initializer, variance):
    """A million draws: five standard errors of a variance, which of neither distribution is more than 1.4e-3 of it."""
    values = initial_values(initializer, np.arange(62_500), 16).astype(float)
    assert abs(values.var() / variance - 1) < 5 * 1.4e-3
    # Uniform within sqrt(3) deviations; normal, within two of what it was before the cut.
    most = np.sqrt(variance) * (np.sqrt(3) if initializer.kind == "uniform" else 2 / 0.8796256610342398)
    assert 0.999 * most < np.abs(values).max() < most * (1 + 1e-6)


@pytest.mark.parametrize("make", [lambda: Initializer.glorot_uniform(0, 0), lambda: Initializer.he_normal(0)])
def test_fans_must_be_stated(make):
    with pytest.raises(CtrlabError, match="Fans must be at least 1"):
        make()


@pytest.mark.parametrize(
    "keys", [np.arange(4096), np.arange(4096) << 40, -np.arange(1, 4097)], ids=["small", "shifted", "negative"]
)
def test_neighbours_have_nothing_in_common(keys):
    values = native_values(Initializer("uniform", -1.0, 1.0, seed=0), keys.astype(np.int64), 16).astype(float)
    correlation = np.corrcoef(np.concatenate([values, np.roll(values, 1, axis=0)], axis=1), rowvar=False)
    assert np.abs(correlation - np.eye(32)).max() < 6 / np.sqrt(len(keys))


def test_keys_spread_over_shards_and_seeds_differ():
    for keys in (np.arange(10_000), np.arange(10_000) << 32, np.arange(10_000) * 1_000_003):
        for count in (2, 3, 7, 16):
            held = np.bincount((hash_keys(keys) % np.uint64(count)).astype(int), minlength=count)
            assert np.abs(held - 10_000 / count).max() < 5 * np.sqrt(10_000 / count)
    one, other = (initial_values(Initializer("uniform", -1.0, 1.0, seed), np.arange(100), 8) for seed in (1, 2))
    assert not np.isin(one, other).all(axis=1).any()

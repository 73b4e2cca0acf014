"""The key hash and the initial values of untrained keys, in NumPy. Twins of native/store/hash.h, native/table/initial_values.h.

stream   s = mix(key + mix(seed + G)) ;  bits(place) = mix(s + (place + 1) G)  (SplitMix64: Steele, Lea & Flood, 2014)
uniform  u = (bits >> 40) / 2^24 ;  float32(a + float32(b - a) u)  bit for bit as in the engine
normal   u = ((bits >> 32) + 1) / 2^32, v = (bits mod 2^32) / 2^32 ;  a + b sqrt(-2 ln u) cos(2 pi v)  (Box & Muller, 1958)
truncated normal
         q = ((bits >> 11) + 1/2) / 2^53 - 1/2, times the probability of the interval [-2, 2] ;  a + b q R(4 q^2),
         R is a quotient of polynomials within 1.2e-8 of the inverse normal distribution there
"""

from __future__ import annotations

import numpy as np

from ctrlab.data.splitmix import GOLDEN, mix
from ctrlab.embedding.options import Initializer

WITHIN_TWO = 0.95449973610364158
NUMERATOR = (
    2.5066282450753827,
    -6.693707993731845,
    6.215300150979127,
    -2.2503542937909153,
    0.21467350728030835,
    0.0094820876269418,
)
DENOMINATOR = (1.0, -2.9322035311907326, 3.103278946760515, -1.3859189102954914, 0.2151628655679318)


def hash_keys(keys: np.ndarray) -> np.ndarray:
    """int64 [n] -> uint64 [n]. Shard j of N of a table has the keys with hash mod N == j."""
    return mix(np.asarray(keys, np.int64).view(np.uint64) + GOLDEN)


def initial_values(initializer: Initializer, keys: np.ndarray, dim: int) -> np.ndarray:
    """The values that keys without a row read in training: int64 [n] -> float32 [n, D].

    >>> initial_values(Initializer("constant", 0.5), np.array([-1, 7]), 2).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    a, b = initializer.a, initializer.b
    start = mix(np.array([initializer.seed], np.uint64) + GOLDEN)
    stream = mix(np.asarray(keys, np.int64).view(np.uint64) + start)  # [n]
    bits = mix(stream[:, None] + np.arange(1, dim + 1, dtype=np.uint64) * GOLDEN)  # [n, D]
    if initializer.kind == "constant":
        values = np.full(bits.shape, a)
    elif initializer.kind == "uniform":
        values = a + float(np.float32(b - a)) * ((bits >> np.uint64(40)) * 2.0**-24)
    elif initializer.kind == "normal":
        u = ((bits >> np.uint64(32)) + 1.0) * 2.0**-32
        v = (bits & np.uint64(0xFFFFFFFF)) * 2.0**-32
        values = a + b * np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)
    else:
        q = (((bits >> np.uint64(11)) + 0.5) * 2.0**-53 - 0.5) * WITHIN_TWO
        s = 4 * q * q
        values = a + b * q * np.polynomial.polynomial.polyval(s, NUMERATOR) / np.polynomial.polynomial.polyval(s, DENOMINATOR)
    return values.astype(np.float32)

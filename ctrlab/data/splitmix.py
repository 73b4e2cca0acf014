"""SplitMix64: a bijective mix of 64 bits (Steele, Lea & Flood, "Fast splittable pseudorandom number generators", 2014).

native/store/hash.h is its twin.
"""

from __future__ import annotations

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio: the increment of the stream."""


def mix(x: np.ndarray) -> np.ndarray:
    """uint64 [...] to uint64 [...]. Each bit of the result depends on all bits of x; mix(0) is 0."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))

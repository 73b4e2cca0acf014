"""How close an op's result is to its reference."""

import numpy as np


def close(received, expected, magnitude, what, within=1e-6):
    """Norm-wise against `magnitude`, the same sums over absolute terms: a few hundred float32 terms, each rounded once."""
    received, expected = np.asarray(received, np.float64), np.asarray(expected, np.float64)
    assert received.shape == expected.shape, what
    assert np.linalg.norm(received - expected) <= within * np.linalg.norm(magnitude), what

"""Fixtures that the tests of ops share."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def finite_differences():
    """`finite_differences(f, arrays)` -> the gradient of the scalar f(*arrays) with regard to each array, in float64."""

    def of(f, arrays, step=1e-6):
        gradients = []
        for i, array in enumerate(arrays):
            gradient = np.zeros_like(array)
            for place in np.ndindex(array.shape):
                sides = []
                for sign in (1, -1):
                    moved = array.copy()
                    moved[place] += sign * step
                    sides.append(f(*arrays[:i], moved, *arrays[i + 1 :]))
                gradient[place] = (sides[0] - sides[1]) / (2 * step)
            gradients.append(gradient)
        return gradients

    return of

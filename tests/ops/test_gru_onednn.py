"""GRU and AUGRU against oneDNN's vanilla form, where it is installed."""

import numpy as np
import pytest

from ctrlab.ops import gru
from ctrlab.ops.benches import onednn
from ctrlab.ops.references.arrays import Events


@pytest.fixture(autouse=True, scope="module")
def installed():
    if onednn.program() is None:
        pytest.skip("no oneDNN to build against (Debian: libdnnl-dev)")


ROWS, LENGTH, WIDTH, HIDDEN = 5, 7, 6, 4


def both(attention):
    """oneDNN's and the reference's outputs and gradients."""
    rng = np.random.default_rng(0)
    joined = WIDTH + HIDDEN
    weights = [rng.normal(size=shape) for shape in [(joined, 2 * HIDDEN), 2 * HIDDEN, (joined, HIDDEN), HIDDEN]]
    x, d_outputs = rng.normal(size=(ROWS, LENGTH, WIDTH)), rng.normal(size=(ROWS, LENGTH, HIDDEN))
    peer = onednn.Gru(x, *weights, attention, d_outputs)
    peer()
    peer()  # the gradients of the second pass are its own, not the sum of both
    flat, d_out = Events.of([LENGTH] * ROWS, x.reshape(-1, WIDTH)), (d_outputs.reshape(-1, HIDDEN), np.zeros((ROWS, HIDDEN)))
    scales = None if attention is None else Events(flat.splits, attention.ravel())
    outputs, _ = gru.OP.reference(flat, *weights, scales)
    d_x, *others = gru.OP.reference_gradient(flat, *weights, scales, d_out=d_out)
    return peer.close(), [outputs.flat.reshape(d_outputs.shape), d_x.reshape(x.shape), *others]


def test_the_gru_is_onednns():
    received, expected = both(None)
    for got, want in zip(received, expected[:6], strict=True):
        np.testing.assert_allclose(got, want, atol=2e-5)


def test_the_augru_is_onednns():
    """Its backward pass (2.6.3) takes (1 - u) for (1 - u') in the candidate's gradient and sends the attention's through the
    sigmoid, so it is no derivative of its forward pass, and finite differences say so. Where a = 0 only the latter is left."""
    received, expected = both(np.random.default_rng(1).random((ROWS, LENGTH)))
    np.testing.assert_allclose(received[0], expected[0], atol=2e-5)
    received, expected = both(np.zeros((ROWS, LENGTH)))
    for got, want in zip(received[:6], expected[:6], strict=True):
        np.testing.assert_allclose(got, want, atol=2e-5)

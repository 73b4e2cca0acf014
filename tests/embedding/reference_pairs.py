"""An embedding variable beside its reference in NumPy, and whether their states are the same."""

import numpy as np
import tensorflow as tf

from ctrlab.embedding import EmbeddingVariable, Options
from ctrlab.embedding.formats.partition import concatenate
from ctrlab.embedding.reference import ReferenceTable
from ctrlab.training import TouchedRows


class Pair:
    """An embedding variable and its reference, taken through the same calls."""

    def __init__(self, dim=3, kind="adagrad", clip=None, fused=True, **options):
        self.optimizer = TouchedRows(kind, 0.1, clip, rungs=["lookup"] * fused)
        self.variable = EmbeddingVariable("items", dim, Options(**options))
        self.optimizer.build([self.variable.proxy])
        self.reference = ReferenceTable(dim, self.variable.options, self.initial, self.optimizer.rule)
        self.fresh = EmbeddingVariable("fresh", dim, Options(initializer=self.variable.options.initializer))
        self.clip, self.step = clip, 0

    def initial(self, keys):
        return self.fresh.lookup(tf.constant(keys, tf.int64), training=True).numpy()

    def update(self, keys, gradients):
        self.step += 1
        keys, gradients = np.array(keys, np.int64), np.array(gradients, np.float32)
        self.reference.update(keys, gradients, 0.1, self.step, self.clip)
        slices = tf.IndexedSlices(tf.constant(gradients), tf.constant(keys), tf.constant([0, self.variable.dim], tf.int64))
        self.optimizer.apply([slices], [self.variable.proxy])

    def check(self, keys):
        for training in (True, False):
            found = self.variable.lookup(tf.constant(keys, tf.int64), training=training)
            np.testing.assert_allclose(found, self.reference.lookup(np.array(keys), training), rtol=1e-5, atol=1e-6)
        same(self.variable.state(), self.reference.state())


def changed(variable, consumer="copy"):
    """The changes since the consumer's last cut, as one state, read in parts of 5 rows; then confirms them for the consumer."""
    cut = variable.cut(consumer)
    parts = list(cut.parts(5))
    state = concatenate(parts)
    assert (cut.rows, cut.candidates, cut.removed) == (len(state.keys), len(state.candidate_keys), len(state.removed))
    assert all(len(part.keys) <= 5 and len(part.candidate_keys) <= 5 for part in parts)
    variable.confirm(consumer, cut.version)
    return state


def same(state, expected):
    """Two states, their keys in any order."""
    order = np.argsort(state.keys)
    waiting = np.argsort(state.candidate_keys)
    for name in ("keys", "frequencies", "steps"):
        np.testing.assert_array_equal(getattr(state, name)[order], getattr(expected, name), name)
    for name in ("candidate_keys", "candidate_counts", "candidate_steps"):
        np.testing.assert_array_equal(getattr(state, name)[waiting], getattr(expected, name), name)
    np.testing.assert_array_equal(np.sort(state.removed), expected.removed)
    np.testing.assert_allclose(state.values[order], expected.values, rtol=1e-5, atol=1e-6)
    assert list(state.slots) == list(expected.slots)
    for name, slot in state.slots.items():
        np.testing.assert_allclose(slot[order], expected.slots[name], rtol=1e-5, atol=1e-6)

"""The lookups that are taken out of a model for the lesson on one lookup."""

import numpy as np
import tensorflow as tf
from ctrlab.lessons.topics.one_lookup import lookups

import ctrlab
from ctrlab import data
from ctrlab.ops import lookup


def test_they_are_the_models_own():
    files = data.prepare("food_delivery", profile="tiny")
    batches = list(files.read_train(batch_size=16).take(2))
    model = ctrlab.build("dlrm")
    found = lookups.of(model, batches)
    assert len(found.inputs) == 2 and len(found.layout.table_of) == len(found.inputs[0]) > 20
    touched, ids = set(), 0
    for t, column in zip(found.layout.table_of, found.inputs[0]):
        values = (column.values if isinstance(column, tf.RaggedTensor) else column).numpy()
        assert (values >= 0).all()  # none is unknown
        touched |= {(t, i) for i in values.tolist()}
        ids += len(values)
    assert (found.examples, found.ids, found.distinct, found.dim) == (16, ids, len(touched), found.tables[0].shape[1])
    (stock,) = lookup.baseline(found.tables, found.inputs[0], found.layout)
    (fused,) = lookup.fused(found.tables, found.inputs[0], found.layout)
    np.testing.assert_allclose(fused, stock, rtol=1e-6)


def test_the_least_work_counts_each_row_once():
    tables = (tf.Variable(tf.zeros((9, 4))),)
    columns = (tf.constant([1, 1, 2], tf.int64),)
    one = lookups.Lookups(tables, lookup.Layout((0,), ("sum",), (0,)), (columns,), examples=3, ids=3, distinct=2, dim=4)
    work = one.work
    assert work.random_rows == 2 and work.row_bytes == 16
    # 3 ids of 8 bytes; 3 output rows forward and 3 backward, and 2 merged rows, of 16 bytes each.
    assert work.bytes == 3 * 8 + (3 + 3 + 2) * 16

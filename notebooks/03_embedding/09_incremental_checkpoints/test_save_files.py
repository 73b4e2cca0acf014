"""Saves as plain arrays: the same rows as in the table, whatever their order."""

import keras
import pytest
import tensorflow as tf
from ctrlab.lessons.topics.incremental_checkpoints import save_files

from ctrlab.embedding import Embedding, embedding_variables
from ctrlab.training import Checkpoints, TouchedRows


@pytest.fixture
def run(tmp_path):
    model, optimizer = keras.Sequential([Embedding(2, name="items")]), TouchedRows("adam_async")
    optimizer.build(model.trainable_variables)
    (items,) = embedding_variables(model)

    def step(keys):
        optimizer.apply([tf.IndexedSlices(tf.ones([len(keys), 2]), tf.constant(keys, tf.int64))], [items.proxy])

    with Checkpoints(tmp_path, model, optimizer, full_every=5) as saver:
        for keys in ([1, 2, 3], [2, 9]):
            step(keys)
            saver.save()
    return items, sorted(tmp_path.glob("*.safetensors"))


def test_rows_and_notes_of_a_full_save_and_its_delta(run):
    _, (full, delta) = run
    assert set(save_files.rows(full)["keys"]) == {1, 2, 3} and set(save_files.rows(delta)["keys"]) == {2, 9}
    assert len(save_files.rows(delta)["removed"]) == 0
    notes = save_files.notes([full, delta])
    assert notes[full]["previous"] is None and notes[delta]["previous"] == notes[full]["id"]
    assert notes[full]["step"] < notes[delta]["step"]


@pytest.mark.parametrize("change", ["none", "order", "value", "key", "one less"])
def test_other_rows_are_not_the_same(run, change):
    items, _ = run
    now = items.state()
    mine = {"keys": now.keys.copy(), "values": now.values.copy()}
    if change == "order":
        mine = {name: array[::-1] for name, array in mine.items()}
    elif change == "value":
        mine["values"][1, 1] += 1e-6
    elif change == "key":
        mine["keys"][0] += 100
    elif change == "one less":
        mine = {name: array[1:] for name, array in mine.items()}
    assert save_files.same_rows(mine, items) == (change in ("none", "order"))

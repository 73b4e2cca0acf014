"""Exports for serving contain keys and values, whatever else is saved meanwhile."""

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from ctrlab.embedding import BloomFilter, CounterFilter, Embedding, Options, embedding_variables, served, variable
from ctrlab.errors import CtrlabError
from ctrlab.training import TouchedRows

KEYS = np.random.default_rng(0).integers(-50, 50, (64, 3))


def trained(admission=None, dim=4):
    keys = keras.Input((3,), dtype="int64")
    rows = Embedding(dim, combiner="rows", options=Options(admission=admission))(keys)
    model = keras.Model(keys, keras.layers.Dense(1)(keras.layers.Flatten()(rows)))
    model.compile(TouchedRows("adam_async", 0.1), loss="mse")
    model.fit(KEYS, np.ones(len(KEYS)), batch_size=8, epochs=2, verbose=0)
    return model


def export(model, path, tables=None):
    archive = keras.export.ExportArchive()
    archive.track(served(model) if tables is None else tables)
    archive.add_endpoint("serve", lambda keys: model(keys, training=False), [model.input])
    archive.write_out(str(path), verbose=False)


def saved_parts(path):
    """{what of the table, and of nothing else, a SavedModel or a checkpoint of TensorFlow holds: its shape}."""
    shapes = tf.train.load_checkpoint(str(path)).get_variable_to_shape_map()
    found = {name.rpartition("/")[2]: shape for name, shape in shapes.items()}
    return {name: shape for name, shape in found.items() if name not in ("VARIABLE_VALUE", "_CHECKPOINTABLE_OBJECT_GRAPH")}


@pytest.mark.parametrize("admission", [CounterFilter(2), BloomFilter(2, expected_keys=1_000)])
def test_what_is_served_is_keys_and_values_alone(tmp_path, admission, monkeypatch):
    model = trained(admission)
    (table,) = embedding_variables(model)
    monkeypatch.setattr(variable, "MOST_AT_ONCE", table.rows() * (8 + 4 * 4) - 1)
    with pytest.raises(CtrlabError, match=r"has 0\.0 GB: send its cuts to the server \(`cut`\)\.$"):
        export(model, tmp_path / "too_large")
    monkeypatch.setattr(variable, "MOST_AT_ONCE", table.rows() * (8 + 4 * 4))
    export(model, tmp_path / "served")
    monkeypatch.undo()
    assert saved_parts(tmp_path / "served/variables/variables") == {"keys": [table.rows()], "values": [table.rows(), 4]}
    loaded = tf.saved_model.load(str(tmp_path / "served"))
    np.testing.assert_allclose(loaded.serve(tf.constant(KEYS)), model.predict(KEYS, verbose=0), rtol=1e-6)
    np.testing.assert_allclose(loaded.serve(tf.constant([[1 << 40] * 3])), [model.layers[-1].bias.numpy()], rtol=1e-6)
    path = tf.train.Checkpoint(model=model).save(tmp_path / "checkpoint")
    assert saved_parts(path)["slots"] == [2, table.rows(), 4] and "filter" in saved_parts(path)


def test_an_export_takes_nothing_from_a_save_that_runs_beside_it(tmp_path):
    model, ended, paths, failed = trained(), threading.Event(), [], []
    (table,) = embedding_variables(model)

    def save():
        try:
            while not ended.is_set():
                paths.append(tf.train.Checkpoint(model=model).save(tmp_path / f"checkpoint_{len(paths)}"))
        except BaseException as error:
            failed.append(error)

    saver = threading.Thread(target=save)
    saver.start()
    exports = []
    while len(paths) < 10 and not failed:
        exports.append(tmp_path / f"served_{len(exports)}")
        export(model, exports[-1])
    ended.set()
    saver.join()
    assert not failed
    everything = set(saved_parts(tf.train.Checkpoint(model=model).save(tmp_path / "quiet")))
    assert {"slots", "frequencies", "filter"} < everything
    assert [path for path in paths if set(saved_parts(path)) != everything] == []
    for path in exports:
        assert saved_parts(path / "variables/variables") == {"keys": [table.rows()], "values": [table.rows(), 4]}


def test_what_is_served_is_exported_once(tmp_path):
    model = trained()
    tables = served(model)
    export(model, tmp_path / "first", tables)
    with pytest.raises(CtrlabError, match=r"exported once; .*served\(model\)"):
        export(model, tmp_path / "second", tables)

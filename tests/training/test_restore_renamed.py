"""A checkpoint of a model goes into the next model of the same code, whose layers Keras numbers otherwise; into no other."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ctrlab.embedding import Embedding, embedding_variables
from ctrlab.errors import CtrlabError
from ctrlab.training import Checkpoints, TouchedRows, get_state, train
from ctrlab.training.restoring import restore, state_variables

KEYS = np.random.default_rng(0).integers(-50, 50, (64, 3))
BATCHES = [(tf.constant(keys), tf.ones([16, 1])) for keys in KEYS.reshape(4, 16, 3)]


def made(units=(4, 4), tables=2):
    """Two layers of one shape, one of them trained more than the other, so that a swap would be seen."""
    keys = keras.Input((3,), dtype="int64")
    rows = [keras.layers.Flatten()(Embedding(4, combiner="rows")(keys)) for _ in range(tables)]
    joined = rows[0] if tables == 1 else keras.layers.Concatenate()(rows)
    hidden = keras.layers.Dense(4)(joined)
    for width in units:
        hidden = keras.layers.Dense(width)(hidden)
    return keras.Model(keys, keras.layers.Dense(1)(hidden)), TouchedRows("adam_async", 0.1)


@pytest.fixture
def saved(tmp_path):
    """A folder with a full save and deltas, the model, and its optimizer."""
    model, optimizer = made()
    with Checkpoints(tmp_path / "run", model, optimizer, every=1, full_every=9) as checkpoints:
        train(model, optimizer, BATCHES, on_step=checkpoints)
    return tmp_path / "run", model, optimizer


def values(model, optimizer):
    return [value for value in get_state(model, optimizer).values() if value.size]


def test_the_second_model_of_the_same_code_goes_on(saved):
    folder, first, first_optimizer = saved
    second, optimizer = made()
    assert state_variables(second, optimizer).keys() != state_variables(first, first_optimizer).keys()
    with Checkpoints(folder, second, optimizer, every=1, full_every=9, resume=True) as checkpoints:
        assert checkpoints.restored.step == 4 and checkpoints.restored.renamed
        for a, b in zip(values(first, first_optimizer), values(second, optimizer), strict=True):
            np.testing.assert_array_equal(a, b)
        for a, b in zip(embedding_variables(first), embedding_variables(second), strict=True):
            assert a.name != b.name
            one, two = a.state(), b.state()
            order, other = np.argsort(one.keys), np.argsort(two.keys)
            np.testing.assert_array_equal(one.keys[order], two.keys[other])
            np.testing.assert_array_equal(one.values[order], two.values[other])
            assert one.slots.keys() == two.slots.keys()
        np.testing.assert_array_equal(first.predict(KEYS, verbose=0), second.predict(KEYS, verbose=0))
        train(first, first_optimizer, BATCHES)
        train(second, optimizer, BATCHES, on_step=checkpoints)
        np.testing.assert_array_equal(first.predict(KEYS, verbose=0), second.predict(KEYS, verbose=0))
    third, optimizer = made()  # from a full save under the second's names, and its deltas
    assert restore(folder, third, optimizer).step == 8
    np.testing.assert_array_equal(second.predict(KEYS, verbose=0), third.predict(KEYS, verbose=0))


def test_the_same_names_are_no_renaming(saved):
    folder, model, optimizer = saved
    assert not restore(folder, model, optimizer).renamed


@pytest.mark.parametrize("other", [{"units": (4,)}, {"units": (5, 4)}, {"units": (4, 4, 4)}, {"tables": 1}], ids=str)
def test_another_model_is_refused_and_unchanged(saved, other):
    folder, *_ = saved
    model, optimizer = made(**other)
    optimizer.build(model.trainable_variables)
    before = values(model, optimizer)
    with pytest.raises(CtrlabError, match=r"^\S+ is of another model: "):
        restore(folder, model, optimizer)
    for a, b in zip(before, values(model, optimizer), strict=True):
        np.testing.assert_array_equal(a, b)


def test_names_that_differ_by_more_than_numbers_are_another_model(saved):
    folder, *_ = saved
    keys = keras.Input((3,), dtype="int64")
    rows = [keras.layers.Flatten()(Embedding(4, combiner="rows")(keys)) for _ in range(2)]
    hidden = keras.layers.Dense(4, name="tower")(keras.layers.Concatenate()(rows))
    model = keras.Model(keys, keras.layers.Dense(1)(keras.layers.Dense(4)(keras.layers.Dense(4)(hidden))))
    with pytest.raises(CtrlabError, match="is of another model"):
        restore(folder, model, TouchedRows("adam_async", 0.1))


def with_names(tables, layers=(None, None)):
    """Columns whose tables the user named, and layers that the user named where a name is given."""
    given = {column: keras.Input((), dtype="int64", name=column) for column in "ab"}
    rows = Embedding(4, dict(zip("ab", tables)), "rows", name="rows")(given)
    hidden = keras.layers.Concatenate()(list(rows.values()))
    for name in layers:
        hidden = keras.layers.Dense(4, name=name)(hidden)
    return keras.Model(given, keras.layers.Dense(1, name="last")(hidden)), TouchedRows("adam_async", 0.1)


def saved_of(folder, model, optimizer):
    batch = ({name: tf.constant([1, 2], tf.int64) for name in "ab"}, tf.ones([2, 1]))
    with Checkpoints(folder, model, optimizer, every=1) as checkpoints:
        train(model, optimizer, [batch], on_step=checkpoints)
    return folder


@pytest.mark.parametrize("tables", [("cat_2", "cat_3"), ("cat_3", "cat_4"), ("rows_1", "rows_2")], ids=str)
def test_tables_that_the_user_named_are_never_taken_for_each_other(tmp_path, tables):
    before = ("rows_3", "rows_4") if tables[0].startswith("rows") else ("cat_1", "cat_2")
    folder = saved_of(tmp_path / "run", *with_names(before))
    model, optimizer = with_names(tables)
    said = r"is of another model: '(cat|rows)_\d' is only in the \w+ \(\d such names\); give the model the checkpoint's names"
    with pytest.raises(CtrlabError, match=said):
        restore(folder, model, optimizer)
    assert not any(table.rows() for table in embedding_variables(model))
    same, optimizer = with_names(before)
    assert restore(folder, same, optimizer).step == 1  # the layers between have other numbers of Keras's


def test_layers_that_the_user_named_are_never_taken_for_each_other(tmp_path):
    folder = saved_of(tmp_path / "run", *with_names("xy", ("tower_1", "tower_2")))
    with pytest.raises(CtrlabError, match=r"'model/tower_1/bias' is only in the checkpoint .*; give the model"):
        restore(folder, *with_names("xy", ("tower_2", "tower_3")))


def test_numbers_that_name_some_layers_of_both_are_not_bridged(tmp_path):
    keras.utils.clear_session()
    folder = saved_of(tmp_path / "run", *with_names("xy"))
    keras.utils.clear_session()
    keras.layers.Dense(1)
    shifted, optimizer = with_names("xy")  # dense_1 and dense_2, where the checkpoint has dense and dense_1
    with pytest.raises(CtrlabError, match=r"keras\.utils\.clear_session\(\) restarts those that Keras numbers\.$"):
        restore(folder, shifted, optimizer)
    keras.utils.clear_session()
    assert restore(folder, *with_names("xy")).step == 1

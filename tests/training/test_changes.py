"""Changes of dense tables by steps, given to any number of consumers: a copy that is updated by cuts equals the table."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab import _native, data
from ctrlab.errors import CtrlabError
from ctrlab.models import build
from ctrlab.training import TouchedRows, make_optimizer, track, train_step
from ctrlab.training.checkpoint import Checkpoints
from ctrlab.training.restoring import restore

ROWS = {"users": 90, "items": 40}


class Copies:
    """The consumers' copies of the tables, updated only by cuts."""

    def __init__(self, changes, tables):
        self.changes, self.tables, self.held, self.versions = changes, tables, {}, {}

    def cut(self, consumer):
        cut = self.changes.cut(consumer)
        for name, changed in cut.items():
            assert (np.diff(changed.ids) > 0).all() and changed.version > self.versions.get(name, -1)
            self.versions[name] = changed.version
        return cut

    def take(self, consumer):
        cut = self.cut(consumer)
        held = self.held.setdefault(consumer, {})
        for name, changed in cut.items():
            if changed.since is None:
                held[name] = changed.rows.copy()
            else:
                held[name][changed.ids] = changed.rows
        self.check(consumer)
        return cut

    def check(self, consumer):
        for name, table in self.tables.items():
            np.testing.assert_array_equal(self.held[consumer][name], table.numpy(), err_msg=f"{consumer}: {name}")


def small_model():
    ids = {name: keras.Input((3,), dtype="int64", name=f"{name}_ids") for name in ROWS}
    rows = [keras.layers.Flatten()(keras.layers.Embedding(rows, 2, name=name)(ids[name])) for name, rows in ROWS.items()]
    return keras.Model(list(ids.values()), keras.layers.Dense(1)(keras.layers.Concatenate()(rows)))


def tracked(kind="adagrad", fused=False, model=None):
    model = model or small_model()
    optimizer = TouchedRows(kind, 0.1, rungs=["lookup"] * fused)
    changes = track(model, optimizer)
    optimizer.build(model.trainable_variables)
    return model, optimizer, Copies(changes, {v.path: v for v in model.trainable_variables if v.path in changes.tables})


def slices(table, ids):
    rows = np.random.default_rng(len(ids)).normal(size=(len(ids), table.shape[1]))
    return tf.IndexedSlices(tf.constant(rows, tf.float32), tf.constant(ids, tf.int64), tf.constant(list(table.shape), tf.int64))


IDS = st.lists(st.integers(0, 39), max_size=6)
CONSUMERS = st.sampled_from(["server", "another", "a third"])


@pytest.fixture(scope="module", params=["baseline", "fused"])
def histories(request):
    return tracked(fused=request.param == "fused")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_copies_kept_up_by_cuts_equal_the_tables(histories, data):
    model, optimizer, copies = histories
    copies.changes.forget_all()
    copies.held.clear()
    last = {}
    for _ in range(data.draw(st.integers(1, 25))):
        what = data.draw(st.sampled_from(["step", "step", "take", "confirm", "lose", "forget", "assign", "dense", "caught up"]))
        consumer = data.draw(CONSUMERS)
        if what in ("step", "dense"):
            gradients = [tf.ones(v.shape) for v in model.trainable_variables]
            for i, v in enumerate(model.trainable_variables):
                if v.path in copies.tables and (what == "step" or i == 0):
                    gradients[i] = slices(v, data.draw(IDS))
            optimizer.apply(gradients, model.trainable_variables)
        elif what == "take":
            last[consumer] = copies.take(consumer)
        elif what == "confirm" and consumer in last:
            copies.changes.confirm(consumer, last.pop(consumer))
        elif what == "lose":  # a cut that never arrives is given again
            copies.cut(consumer)
            last.pop(consumer, None)
        elif what == "forget":
            copies.changes.forget(consumer)
            last.pop(consumer, None)
        elif what == "assign":
            table = data.draw(st.sampled_from(list(copies.tables.values())))
            table.assign(table.numpy() + 1)
            last.clear()  # what was given before can't be confirmed any more
        elif what == "caught up":
            copies.held[consumer] = {name: table.numpy() for name, table in copies.tables.items()}
            copies.changes.caught_up(consumer)
            last.pop(consumer, None)
    for consumer in ("server", "another", "a third"):
        copies.take(consumer)


@pytest.mark.parametrize("kind", ["sgd", "adagrad", "ftrl", "adam_async"])
@pytest.mark.parametrize("fused", [False, True], ids=["baseline", "fused"])
@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
def test_a_cut_has_the_rows_of_the_steps_since_and_no_others(kind, fused, graph):
    _, optimizer, copies = tracked(kind, fused)
    users, items = copies.tables.values()
    variables = [users, items]
    drawn = tf.Variable([0, 0, 0], dtype=tf.int64)

    def step():
        gradients = [
            tf.IndexedSlices(tf.ones((3, 2)), drawn.value(), tf.constant([90, 2], tf.int64)),
            tf.IndexedSlices(tf.ones((1, 2)), drawn.value()[:1], tf.constant([40, 2], tf.int64)),
        ]
        optimizer.apply(gradients, variables)

    step = tf.function(step) if graph else step
    first = copies.take("server")
    assert [changed.since for changed in first.values()] == [None, None]
    copies.changes.confirm("server", first)
    for ids in ([7, 3, 7], [20, 3, 0]):
        drawn.assign(ids)
        step()
    cut = copies.take("server")
    assert [changed.ids.tolist() for changed in cut.values()] == [[0, 3, 7, 20], [7, 20]]
    again = copies.take("server")  # not confirmed
    assert [changed.ids.tolist() for changed in again.values()] == [[0, 3, 7, 20], [7, 20]]
    copies.changes.confirm("server", again)
    assert [changed.ids.tolist() for changed in copies.take("server").values()] == [[], []]


def test_a_step_that_is_refused_marks_nothing():
    _, optimizer, copies = tracked("ftrl", fused=True)
    users = copies.tables["users/embeddings"]
    copies.changes.confirm("server", copies.take("server"))
    optimizer.learning_rate = 0.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="above 0"):
        optimizer.apply([slices(users, [1, 2])], [users])
    assert copies.take("server")["users/embeddings"].ids.tolist() == []


def test_past_the_bound_a_consumer_is_given_everything():
    table = keras.layers.Embedding(100_000, 1)
    model = keras.Sequential([keras.Input((1,), dtype="int64"), table])
    _, optimizer, copies = tracked("sgd", True, model)
    copies.changes.confirm("server", copies.take("server"))
    copies.changes.confirm("slow", copies.take("slow"))
    for first in range(0, 99_000, 9_000):
        optimizer.apply([slices(table.embeddings, np.arange(first, first + 9_000))], [table.embeddings])
        cut = copies.take("server")[table.embeddings.path]
        assert len(cut.ids) == 9_000
        copies.changes.confirm("server", {table.embeddings.path: cut})
    optimizer.apply([slices(table.embeddings, np.arange(9_000))], [table.embeddings])
    assert copies.take("slow")[table.embeddings.path].since is None


@pytest.fixture(scope="module")
def batches(tmp_path_factory):
    schema = data.schema("amazon_reviews").with_buckets(300)
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    data.write(list(data.generate(schema.name, rows=96, seed=3)), schema, path, "parquet", progress=False)
    return schema, list(data.read(path, schema, batch_size=16))


@pytest.mark.parametrize("rungs", ["none", "lookup"])
def test_a_models_tables_are_tracked_through_a_restore(batches, rungs, tmp_path):
    schema, batches = batches
    model = build("din", schema, rungs)
    optimizer = make_optimizer(model)
    changes = track(model, optimizer)
    copies = Copies(changes, {v.path: v for v in model.trainable_variables if v.path in changes.tables})
    assert len(copies.tables) == len(schema.tables)
    step = train_step(model, optimizer)
    checkpoints = Checkpoints(tmp_path, model, optimizer, every=3)
    for n, batch in enumerate(batches[:4]):
        step(*batch)
        cut = copies.take("server")
        copies.changes.confirm("server", cut)
        if n:
            assert all(changed.since is not None and len(changed.ids) < 300 for changed in cut.values())
        checkpoints.advance(1)
    checkpoints.close()
    step(*batches[0])
    restore(tmp_path, model, optimizer)
    assert all(changed.since is None for changed in copies.take("server").values())
    step(*batches[0])
    copies.take("server")


def ops_of(model, optimizer, batch):
    graph = train_step(model, optimizer).get_concrete_function(*batch).graph
    return [op.type for function in (graph, *graph._functions.values()) for op in getattr(function, "get_operations", list)()]


@pytest.mark.parametrize("rungs", ["none", "lookup"])
def test_without_tracking_nothing_is_added_and_with_it_one_op(batches, rungs):
    schema, (batch, *_) = batches
    found = {}
    for tracking in (False, True):
        model = build("din", schema, rungs)
        optimizer = make_optimizer(model)
        if tracking:
            track(model, optimizer)
        found[tracking] = ops_of(model, optimizer, batch)
    assert found[False].count("Ctrlab>MarkChanges") == 0 and found[True].count("Ctrlab>MarkChanges") == 1


def test_what_can_not_be_tracked_is_refused():
    model = small_model()
    with pytest.raises(CtrlabError, match=r"takes a ctrlab\.training\.TouchedRows; received Adam: train"):
        track(model, keras.optimizers.Adam())
    with pytest.raises(CtrlabError, match="has none that is built: build the model first"):
        track(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]), TouchedRows("sgd"))
    optimizer = TouchedRows("sgd")
    changes = track(model, optimizer)
    with pytest.raises(CtrlabError, match="is tracked already"):
        track(model, optimizer)
    with pytest.raises(CtrlabError, match="Unknown table 'nothing'; known are "):
        changes.confirm("server", dict.fromkeys(["nothing"], next(iter(changes.cut("server").values()))))
    with pytest.raises(CtrlabError, match="confirms 7"):
        changes.cut("server")
        changes.confirm(
            "server", {name: changed.__class__(None, None, None, 7) for name, changed in changes.cut("server").items()}
        )
    first, second = changes.cut("late"), changes.cut("late")
    with pytest.raises(CtrlabError, match="late confirms"):  # of two cuts and no confirmation, the last alone
        changes.confirm("late", first)
    with pytest.raises(CtrlabError, match="Unknown table 'nothing'"):
        changes.confirm("late", second | {"nothing": next(iter(second.values()))})
    assert all(changed.since is None for changed in changes.cut("late").values())
    late, table = TouchedRows("sgd"), model.trainable_variables[0]
    tf.function(lambda: late.apply([slices(table, [1])], [table]))()
    with pytest.raises(CtrlabError, match="has traced a step"):
        track(model, late)


@pytest.mark.parametrize("ids", [[-1], [90], [2**62]])
def test_rows_that_are_not_there_are_refused(ids):
    ops = _native.library().ops
    log, variable = ops.ctrlab_change_log(table_name="users", rows=90), tf.Variable([1.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"rows of users are in \[0, 90\); received"):
        ops.ctrlab_mark_changes(logs=[log], variables=[variable.handle], ids=[tf.constant(ids, tf.int64)])


def test_weights_that_are_set_or_loaded_are_given_whole(tmp_path):
    model, _, copies = tracked()
    model.save_weights(tmp_path / "w.weights.h5")
    written = tf.train.Checkpoint(model=model).save(tmp_path / "tensorflow")
    for put in (
        lambda: model.set_weights([w + 1 for w in model.get_weights()]),
        lambda: model.load_weights(tmp_path / "w.weights.h5"),
        lambda: model.set_weights([w + 2 for w in model.get_weights()]),
        lambda: tf.train.Checkpoint(model=model).restore(written),
    ):
        copies.changes.confirm("server", copies.take("server"))
        put()
        assert all(changed.since is None for changed in copies.take("server").values())

"""The real worker: what it counts, and one small race from the command line to the report."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from ctrlab import data, profiles
from ctrlab.data.csv import split
from ctrlab.optimizations import LADDER
from ctrlab.race import result, worker
from ctrlab.training import Run, get_state, threads


@pytest.fixture(autouse=True)
def untuned(monkeypatch):
    """A machine's own answer on threads can't be taken in this process, where TensorFlow has run."""
    monkeypatch.setattr(threads, "stored", dict)


def test_the_worker_takes_every_level_of_the_ladder():
    """`build` refuses rungs of other levels; `Session` has to hand the first such one to the reader or the loop. Exports
    take those of serving."""
    assert {rung.level for rung in LADDER} == {"model", "input", "run", "serving"}


# A rung of the model, without which the baseline takes gigabytes of memory (one-hot) or most of the time.
QUICK = {"deepfm": "indicator", "din": "attention"}
INPUT = [rung for rung in LADDER if rung.level == "input"]


def handed_over(session, steps: int) -> list:
    """The inputs of the steps: the ids, numbers and labels of each batch, as arrays."""
    batches = [next(session.run.batches) for _ in range(steps)]
    given = [(session.run.model.encoder.stage(features), labels) for features, labels in batches]
    parts = [tf.nest.flatten(batch, expand_composites=True) for batch in given]
    return [part.numpy() for batch in parts for part in batch]


@pytest.mark.parametrize("model,data_set", [("deepfm", "food_delivery"), ("din", "amazon_reviews")])
def test_input_rungs_train_on_the_same_rows(model, data_set):
    """Whatever the files, the same rows in the same order, bit for bit, into the second epoch; and the steps take them.

    Losses are held over two steps only. Two runs of the same variant differ by rounding (sums of many threads), and after
    half a dozen steps the input of one ReLU has another sign in one of them: its row's gradient is there or isn't.
    """
    same = [rung.name for rung in INPUT if not rung.changes_results]
    rows, losses = {}, {}
    for rungs in [[], *([name] for name in same), same]:
        session = worker.Session(worker.Job(model, [QUICK[model], *rungs], data_set, "generated", "tiny", 2021))
        name = "+".join(rungs)
        rows[name], losses[name] = handed_over(session, 9), session.train(2)["losses"]
    assert session.run.files.rows < 9 * session.run.batch_size
    for name in rows:
        assert len(rows[name]) == len(rows[""])
        for found, expected in zip(rows[name], rows[""]):
            np.testing.assert_array_equal(found, expected, err_msg=name)
        assert losses[name] == pytest.approx(losses[""], rel=1e-5), name


@pytest.mark.long
def test_run_rungs_train_on_the_same_rows():
    run = [rung.name for rung in LADDER if rung.level == "run"]
    sessions = {
        name: worker.Session(worker.Job("deepfm", rungs, "food_delivery", "generated", "tiny", 2021))
        for name, rungs in (("none", ["indicator"]), ("run", ["indicator", *run]))
    }
    assert sessions["none"].positions == sessions["run"].positions
    assert sessions["none"].run.choice.setting.stage == 0 < sessions["run"].run.choice.setting.stage
    assert "has not been tuned for deepfm" in sessions["run"].open()["setting"]
    none, every = (session.train(2)["losses"] for session in sessions.values())
    assert every == pytest.approx(none, rel=1e-5)
    assert sessions["run"].evaluate()["rows"] == sessions["none"].evaluate()["rows"]


def test_a_large_batch_trains_on_as_many_rows():
    session = worker.Session(worker.Job("deepfm", ["indicator", "large_batch"], "food_delivery", "generated", "tiny", 2021))
    assert session.run.batch_size == 2_048 == 4 * session.run.model.hyper.batch_size
    assert [len(session.train(steps)["losses"]) for steps in (6, 1, 1, 4)] == [1, 0, 1, 1]


def test_positions_are_the_ids_in_the_lists():
    schema = data.schema("amazon_reviews")
    history = schema.histories[0]
    long = history.separator.join(["x"] * (history.max_length + 7))
    texts = ["", "a", history.separator.join("abc"), long]
    features = {c.name: tf.constant([""] * 4) for c in schema.features}
    assert worker.positions(schema, features) == 0
    features[history.name] = tf.constant(texts)
    assert worker.positions(schema, features) == 0 + 1 + 3 + history.max_length
    features[history.name] = split(tf.constant(texts), history.separator)
    assert worker.positions(schema, features) == 0 + 1 + 3 + history.max_length


def test_a_row_is_counted_once_however_often_it_is_named(session):
    schema = session.run.model.input_schema
    batch, _ = next(iter(session.run.read()))
    one = {name: value[:1] for name, value in batch.items()}
    twice = {name: tf.concat([value, value], 0) for name, value in one.items()}
    found = worker.distinct_rows(session.run.model, one)
    assert 0 < found == worker.distinct_rows(session.run.model, twice)
    assert found <= len(schema.categoricals) + worker.positions(schema, one)
    floor, all_differ = (session.run.model.work(512, session.positions, n) for n in (session.distinct, None))
    assert floor.random_rows < all_differ.random_rows


@pytest.fixture(scope="module")
def session():
    job = worker.Job("deepfm", ["indicator"], "food_delivery", "generated", "tiny", 2021)
    return worker.Session(job)


def test_warm_up_leaves_the_first_weights(session):
    fresh = Run(session.run.spec)
    expected = get_state(fresh.model, fresh.optimizer)
    for name, value in get_state(session.run.model, session.run.optimizer).items():
        assert (value == expected[name]).all(), name


def test_a_worker_trains_evaluates_and_starts_over(session):
    assert session.open()["train_rows"] == profiles.PROFILES["tiny"].rows
    first = session.train(2)
    assert len(first["losses"]) == 2 and first["seconds"] > 0
    assert len(session.train(1)["losses"]) == 1
    found = session.evaluate()
    assert 0 < found["auc"]["clicked"] < 1 and found["rows"] == session.run.files.test_rows
    session.retrain(2022, 1)
    assert int(session.run.optimizer.iterations) == 1


@pytest.mark.long
def test_a_race_of_one_model_from_the_command_line(tmp_path):
    """Two real workers, baseline and all, and everything that comes out of them."""
    command = [sys.executable, "-m", "ctrlab", "race", "--models", "deepfm", "--profile", "tiny"]
    paths = ["--json", str(tmp_path / "race.json"), "--html", str(tmp_path / "race.html")]
    ran = subprocess.run([*command, *paths], capture_output=True, text=True, timeout=240, env=os.environ | {"COLUMNS": "140"})
    assert ran.returncode == 0, ran.stderr
    assert "deepfm" in ran.stdout and "total" in ran.stdout
    raced = result.load(tmp_path / "race.json")
    [entry] = raced.models
    assert raced.complete and entry.steps == 20 and entry.floor > 0
    none, every = entry.variants
    assert none.rungs == () and "indicator" in every.rungs
    assert none.losses[:3] == pytest.approx(every.losses[:3], rel=1e-4)  # the same weights and batches; later rounding tells
    assert len(entry.seed_auc["clicked"]) == profiles.PROFILES["tiny"].seeds
    assert entry.seed_auc["clicked"][0] == none.auc["clicked"] != entry.seed_auc["clicked"][1]
    page = (tmp_path / "race.html").read_text()
    assert "Loss of deepfm" in page and "plotly.js v" in page
    assert sorted(p.name for p in tmp_path.iterdir()) == ["race.html", "race.json"]

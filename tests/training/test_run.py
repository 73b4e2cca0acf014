"""A run is what its spec says, whoever asks for it."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from ctrlab.embedding import Options, Storage
from ctrlab.embedding.choices import Variable
from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.training import Run, Saving, Spec, get_state, threads
from ctrlab.training.threads import Setting

SPEC = Spec("mmoe", "lookup,parsing,experts", profile="tiny", epochs=1)


@pytest.fixture(autouse=True)
def untuned(monkeypatch):
    """A machine's own answer on threads can't be taken in this process, where TensorFlow has run."""
    monkeypatch.setattr(threads, "stored", dict)


def test_all_rows_are_trained_on_once_and_judged():
    with Run(SPEC) as run:
        assert run.batch_count == run.files.rows // 512 == 8 and run.position == 0
        assert len(run.train().losses) == 8
        found = run.evaluate()
    assert found.rows == run.files.test_rows and set(found.auc) == set(run.model.tasks)
    assert run.evaluate(most_rows=1).rows == 512


def test_steps_go_on_where_the_last_ones_ended():
    whole, parts = Run(SPEC), Run(SPEC)
    losses = parts.train(3).losses + parts.train(5).losses
    assert losses == pytest.approx(whole.train().losses, rel=1e-4)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_lines_have_their_lists_as_text_and_columns_have_them_split(format):
    run = Run(dataclasses.replace(SPEC, format=format))
    features, _ = next(run.batches)
    lists = [features[column.name] for column in run.model.schema.multi_hots]
    assert lists and all(isinstance(each, tf.RaggedTensor) == (format == "parquet") for each in lists)


def test_gauc_is_of_the_same_users_whatever_the_files_hold():
    """Encoded files hold the users' buckets, and so many rows share one that a user's name would tell another GAUC."""
    found = []
    for rungs in ([], ["encoded"]):
        with Run(Spec("deepfm", rungs, profile="tiny")) as run:
            run._predict = lambda features, model=run.model: tf.cast(model.users(features)[:, None] % 7, tf.float32) / 7
            found.append(run.evaluate().gauc["clicked"])
    assert found[0] == found[1] == 0.5  # a user's rows have one prediction


def test_checkpoints_do_not_count_other_batches(tmp_path):
    with Run(dataclasses.replace(SPEC, saving=Saving(tmp_path))) as run:
        assert len(run.train(batches=run.read().take(2)).losses) == 2
        assert run.position == 0
    assert not list(tmp_path.glob("*.safetensors"))


def test_a_run_begins_anew_from_another_seed():
    run, other = Run(SPEC), Run(dataclasses.replace(SPEC, seed=7))
    run.train(2)
    run.restart(7)
    for name, array in get_state(run.model, run.optimizer).items():
        np.testing.assert_array_equal(array, get_state(other.model, other.optimizer)[name], err_msg=name)
    assert run.train(2).losses == pytest.approx(other.train(2).losses, rel=1e-5)


def test_a_stopped_run_goes_on_from_its_checkpoint_several_steps_a_call(tmp_path):
    spec = dataclasses.replace(SPEC, optimizations=f"{SPEC.optimizations},loop", saving=Saving(tmp_path, every=3))
    with Run(spec) as run:
        run.train(7)
        assert run.position == 7
    with Run(dataclasses.replace(spec, saving=Saving(tmp_path, resume=True))) as run:
        assert run.position == 6 and len(run.train().losses) == 2 and run.position == 8
    with pytest.raises(CtrlabError, match="same seed"):
        Run(dataclasses.replace(spec, seed=1, saving=Saving(tmp_path, resume=True)))
    with pytest.raises(CtrlabError, match="holds checkpoints of an earlier run"):
        Run(spec)


def test_rows_on_a_disk_are_ready_before_their_step(tmp_path):
    """The loop inside the graph would not see to that: so such a run takes one step at a time."""
    embedding = Variable(Options(storage=Storage(str(tmp_path), 1_700)))
    with Run(dataclasses.replace(SPEC, optimizations="loop", embedding=embedding)) as run:
        assert len(run.train().losses) == 8 and not isinstance(run.batches, tf.data.Iterator)


def test_what_can_not_be_run():
    with pytest.raises(UnknownName, match="model"):
        Run(dataclasses.replace(SPEC, model="wld"))
    with pytest.raises(UnknownName, match="data set"):
        Run(dataclasses.replace(SPEC, data_set="taobo"))
    with pytest.raises(CtrlabError, match="before TensorFlow runs anything"):
        Run(dataclasses.replace(SPEC, setting=Setting(3, 5)))
    with pytest.raises(UnknownName, match="embedding"):
        Run(dataclasses.replace(SPEC, embedding="varable"))

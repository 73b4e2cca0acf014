"""A run with validation rows ends when they no longer gain, and keeps its best state."""

import dataclasses

import numpy as np
import pyarrow.parquet as pq
import pytest

from ctrlab import data
from ctrlab.embedding import embedding_variables
from ctrlab.errors import BadData, CtrlabError
from ctrlab.models import MODELS
from ctrlab.training import Run, Saving, Spec, get_state, threads
from ctrlab.training.held_out import hold_out

PRESET = MODELS["deepfm"].presets["small"]
# So fast, without regularization, and so often that it learns 4,096 rows by heart.
EAGER = PRESET.with_numbers(l2=0.0, hyper=dataclasses.replace(PRESET.hyper, learning_rate=0.01))
SPEC = Spec("deepfm", profile="tiny", format="parquet", embedding="variable", size=EAGER, epochs=12, validation=0.2, patience=1)


@pytest.fixture(autouse=True)
def untuned(monkeypatch):
    monkeypatch.setattr(threads, "stored", dict)


def batches(run, epochs):
    return epochs * run.files.rows // run.batch_size


def test_the_last_rows_are_held_out_and_none_is_lost(tmp_path):
    files = data.prepare_for(data.schema("food_delivery"), [], profile="tiny", format="parquet")
    first, rows = hold_out(files, 0.25, tmp_path)
    whole = pq.read_table(files.train[0])
    assert first.rows == round(0.75 * files.rows) and first.test == files.test
    for path, expected in ((first.train[0], whole.slice(0, first.rows)), (rows, whole.slice(first.rows))):
        assert pq.read_table(path).equals(expected)
    for fraction in (0, 1, -0.5, float("nan")):
        with pytest.raises(CtrlabError, match="above 0 and below 1; received"):
            hold_out(files, fraction, tmp_path)
    with pytest.raises(BadData, match="makes 0"):
        hold_out(files, 1e-9, tmp_path)
    with pytest.raises(CtrlabError, match="the format is csv: choose parquet"):
        hold_out(dataclasses.replace(files, format="csv"), 0.5, tmp_path)


def test_it_ends_in_the_state_of_its_best_epoch_and_saves_that(tmp_path):
    with Run(dataclasses.replace(SPEC, saving=Saving(tmp_path / "run"))) as run:
        states, look = [], run.stopping.look

        def looked():
            states.append(get_state(run.model, run.optimizer))
            return look()

        run.stopping.look = looked
        losses = run.train().losses
        best = run.stopping.best
        found = [np.mean(list(e.auc.values())) for e in run.stopping.evaluations]
        assert len(states) == best + 2 < 12 and len(losses) == batches(run, len(states)) and found[best] == max(found)
        now = get_state(run.model, run.optimizer)
        for path, value in states[best].items():
            np.testing.assert_array_equal(now[path], value, err_msg=path)
        rows = {v.name: v.state() for v in embedding_variables(run.model)}
        assert len(rows) and int(run.optimizer.iterations) == batches(run, best + 1)
        expected = run.evaluate().auc
    spec = dataclasses.replace(SPEC, saving=Saving(tmp_path / "run", resume=True))
    with Run(spec) as again:
        assert again.evaluate().auc == pytest.approx(expected, abs=1e-6)
        for variable in embedding_variables(again.model):
            assert sorted(variable.state().keys) == sorted(rows[variable.name].keys)
    for changes, says in ({"size": "small"}, "same sizes"), ({"patience": 3}, "same validation"), ({"size": "contest"}, "same"):
        with pytest.raises(CtrlabError, match=says):
            Run(dataclasses.replace(spec, **changes))


@pytest.mark.parametrize("cut", [0, 1, 5, 6])
def test_each_epoch_is_judged_once(tmp_path, cut):
    """Also where three epochs have a batch more than thrice those of one, and where a run goes on in the middle of one."""
    small = EAGER.with_numbers(hyper=dataclasses.replace(EAGER.hyper, batch_size=600))
    spec = dataclasses.replace(SPEC, size=small, epochs=3, patience=9, saving=Saving(tmp_path / "run", every=1))
    with Run(spec) as run:
        assert batches(run, 3) == 3 * batches(run, 1) + 1 == 16
        run.train(steps=cut)
    with Run(dataclasses.replace(spec, saving=Saving(tmp_path / "run", resume=True))) as run:
        assert run.position == cut
        run.train()
        assert len(run.stopping.evaluations) == (3 if cut < 5 else 2)


def test_a_run_that_follows_a_folder_has_no_validation(tmp_path):
    with pytest.raises(CtrlabError, match="follows a folder has no end to judge"):
        Run(dataclasses.replace(SPEC, follow=tmp_path))

"""Rows and runs for what the size of the tables costs."""

import numpy as np
import pytest

from ctrlab.data import planted
from ctrlab.data.sets import GENERATORS
from ctrlab.embedding.choices import LEAST_BUCKETS
from ctrlab.errors import CtrlabError
from ctrlab.training import table_sizes


@pytest.fixture(scope="module")
def sample():
    return table_sizes.generated(4_096)


def test_the_planted_model_is_left_as_it_is(sample):
    before = GENERATORS["criteo"].plan.shares
    assert table_sizes._plan(None, None).shares == pytest.approx(before)
    changed = dict(zip(planted.PARTS, table_sizes._plan(0.4, 0.1).shares))
    assert (changed["rare"], changed["drift"], sum(changed.values())) == (0.4, 0.1, pytest.approx(1))
    assert changed["pairs"] / changed["first order"] == pytest.approx(before[1] / before[0])
    assert GENERATORS["criteo"].plan.shares is before
    assert 0.78 < sample.about["ceiling"] < 0.85


def test_generated_rows_are_those_of_their_seed(sample):
    again, other = table_sizes.generated(4_096), table_sizes.generated(4_096, seed=1)
    assert (len(sample.train.labels), len(sample.test.labels)) == (4_096, 819)
    for name, ids in sample.train.ids.items():
        np.testing.assert_array_equal(again.train.ids[name], ids)
        assert ids.min() >= 0
    assert any(np.any(other.train.ids[name] != ids) for name, ids in sample.train.ids.items())


def test_fingerprints_tell_ranks_and_columns_apart():
    ranks = np.arange(-1, 100_000)
    found = np.concatenate([table_sizes.fingerprint(ranks, column) for column in ("C1", "C2")])
    assert len(np.unique(found)) == len(found) and found.min() >= 0
    assert abs(np.mean(found > 1 << 62) - 0.5) < 0.01


def test_places_are_those_of_the_training_rows(sample):
    known = sample.distinct()
    train, test = (table_sizes._placed(rows, known).ids["C3"] for rows in (sample.train, sample.test))
    assert train.min() == 0 and train.max() == len(known["C3"]) - 1
    np.testing.assert_array_equal(known["C3"][train], sample.train.ids["C3"])
    np.testing.assert_array_equal(test == -1, ~np.isin(sample.test.ids["C3"], known["C3"]))
    assert -1 in test


@pytest.mark.parametrize("way", ["perfect", "hashed", "binary code of 4, concat"])
def test_a_run_says_what_it_was(sample, way):
    found = table_sizes.run(sample, way, 20)
    assert found["size"] == 1.0 if way == "perfect" else 0.05 < found["size"] < 0.5
    assert found["collisions"] == 0.0 if way == "perfect" else found["collisions"] > 0
    assert 0.4 < found["auc"] < 0.7 and found["compression"] == (1.0 if way == "perfect" else 20)
    assert any(len(ids) >= LEAST_BUCKETS for ids in sample.distinct().values())


def test_a_variable_has_a_row_for_each_id_or_for_each_that_came_back(sample):
    every, back = (table_sizes.run(sample, way, 20) for way in ("variable", "variable, from the second time"))
    counts = {name: np.unique(ids, return_counts=True)[1] for name, ids in sample.train.ids.items()}
    kept = sum(np.count_nonzero(n >= 2) if len(n) >= LEAST_BUCKETS else len(n) for n in counts.values())
    assert every["size"] == 1.0 and back["size"] == pytest.approx(kept / sum(map(len, counts.values())))
    assert every["collisions"] == back["collisions"] == 0.0 and every["compression"] == back["compression"] == 1.0


@pytest.mark.parametrize("model", ["wdl", "deepfm"])
def test_models_with_a_linear_part_run_the_real_variable(sample, model):
    found = table_sizes.run(sample, "variable", model=model)
    assert (found["model"], found["way"], found["size"], found["collisions"]) == (model, "variable", 1.0, 0.0)
    assert 0.4 < found["auc"] < 0.7


def test_real_rows_or_one_sentence(monkeypatch):
    monkeypatch.delenv("CTRLAB_REAL_DATA", raising=False)
    with pytest.raises(CtrlabError, match="CTRLAB_REAL_DATA"):
        table_sizes.real()

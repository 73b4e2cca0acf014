"""The study of table sizes: its rows, its runs, and the records that lessons show."""

import json

import numpy as np
import pytest
import typer

from ctrlab.data import planted
from ctrlab.data.sets import GENERATORS
from ctrlab.embedding.choices import LEAST_BUCKETS
from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.lessons import embedding_charts
from ctrlab.lessons import embedding_study as study


@pytest.fixture(scope="module")
def sample():
    return study.generated(4_096)


def test_the_planted_model_is_left_as_it_is(sample):
    before = GENERATORS["criteo"].plan.shares
    assert study._plan(None, None).shares == pytest.approx(before)
    changed = dict(zip(planted.PARTS, study._plan(0.4, 0.1).shares))
    assert (changed["rare"], changed["drift"], sum(changed.values())) == (0.4, 0.1, pytest.approx(1))
    assert changed["pairs"] / changed["first order"] == pytest.approx(before[1] / before[0])
    assert GENERATORS["criteo"].plan.shares is before
    assert 0.78 < sample.about["ceiling"] < 0.85


def test_generated_rows_are_those_of_their_seed(sample):
    again, other = study.generated(4_096), study.generated(4_096, seed=1)
    assert (len(sample.train.labels), len(sample.test.labels)) == (4_096, 819)
    for name, ids in sample.train.ids.items():
        np.testing.assert_array_equal(again.train.ids[name], ids)
        assert ids.min() >= 0
    assert any(np.any(other.train.ids[name] != ids) for name, ids in sample.train.ids.items())


def test_fingerprints_tell_ranks_and_columns_apart():
    ranks = np.arange(-1, 100_000)
    found = np.concatenate([study.fingerprint(ranks, column) for column in ("C1", "C2")])
    assert len(np.unique(found)) == len(found) and found.min() >= 0
    assert abs(np.mean(found > 1 << 62) - 0.5) < 0.01


def test_places_are_those_of_the_training_rows(sample):
    known = sample.distinct()
    train, test = (study._placed(rows, known).ids["C3"] for rows in (sample.train, sample.test))
    assert train.min() == 0 and train.max() == len(known["C3"]) - 1
    np.testing.assert_array_equal(known["C3"][train], sample.train.ids["C3"])
    np.testing.assert_array_equal(test == -1, ~np.isin(sample.test.ids["C3"], known["C3"]))
    assert -1 in test


@pytest.mark.parametrize("way", ["perfect", "hashed", "binary code of 4, concat"])
def test_a_run_says_what_it_was(sample, way):
    found = study.run(sample, way, 20)
    assert found["size"] == 1.0 if way == "perfect" else 0.05 < found["size"] < 0.5
    assert found["collisions"] == 0.0 if way == "perfect" else found["collisions"] > 0
    assert 0.4 < found["auc"] < 0.7 and found["compression"] == (1.0 if way == "perfect" else 20)
    assert any(len(ids) >= LEAST_BUCKETS for ids in sample.distinct().values())


def test_a_variable_has_a_row_for_each_id_or_for_each_that_came_back(sample):
    every, back = (study.run(sample, way, 20) for way in ("variable", "variable, from the second time"))
    counts = {name: np.unique(ids, return_counts=True)[1] for name, ids in sample.train.ids.items()}
    kept = sum(np.count_nonzero(n >= 2) if len(n) >= LEAST_BUCKETS else len(n) for n in counts.values())
    assert every["size"] == 1.0 and back["size"] == pytest.approx(kept / sum(map(len, counts.values())))
    assert every["collisions"] == back["collisions"] == 0.0 and every["compression"] == back["compression"] == 1.0


@pytest.mark.parametrize("model", ["wdl", "deepfm"])
def test_models_with_a_linear_part_run_the_real_variable(sample, model):
    found = study.run(sample, "variable", model=model)
    assert (found["model"], found["way"], found["size"], found["collisions"]) == (model, "variable", 1.0, 0.0)
    assert 0.4 < found["auc"] < 0.7


def test_in_the_records_a_variable_is_no_worse_than_hashing():
    """On real rows, by the mean over seeds, as far as the seeds' own spread tells; with all ids, and with a quarter of them."""

    def aucs(name, way):
        runs = embedding_charts.recorded(name)["runs"]
        return np.array([r["auc"] for r in runs if r["way"] == way and r["compression"] == 1.0 and r["data"] == "real"])

    hashed = aucs("real", "hashed")
    for way in ("variable", "variable, from the second time"):
        received = aucs("variable", way)
        assert len(received) >= 3 and len(hashed) >= 2
        assert received.mean() > hashed.mean() - np.ptp(hashed)


def test_a_study_goes_on_where_it_was(sample, tmp_path, monkeypatch):
    out, done = tmp_path / "study.json", []
    monkeypatch.setattr(study, "run", lambda *args: done.append(args[1:4]) or {**sample.about, **_key(*args)})
    study.study([(0, sample)], ["perfect", "hashed"], [1.0, 5.0], out, "dlrm")
    assert done == [("perfect", 1.0, 0), ("hashed", 1.0, 0), ("hashed", 5.0, 0)]
    study.study([(0, sample), (1, sample)], ["hashed"], [5.0], out, "dlrm")
    assert done[3:] == [("hashed", 5.0, 1)]
    assert len(json.loads(out.read_text())["runs"]) == 4


def test_the_command_takes_lists_and_says_a_wrong_one_in_a_sentence(sample, tmp_path, monkeypatch, capsys):
    out, asked = tmp_path / "study.json", []
    monkeypatch.setattr(study, "generated", lambda *args: asked.append(args) or sample)
    monkeypatch.setattr(study, "run", lambda *args: {**sample.about, **_key(*args)})
    study.main(out, rare=",0.4", ways="perfect;hashed", compressions="1,5", seeds=1)
    assert asked == [(100_000, 0, None, None), (100_000, 0, 0.4, None)] and out.exists()
    for wrong, says in (
        ({"rare": "0.4;0.5"}, "--rare takes numbers separated by commas; got '0.4;0.5'."),
        ({"compressions": "5,0"}, "--compressions takes numbers above 0; got '5,0'."),
        ({"ways": "perfect;hash"}, "Did you mean 'hashed'?"),
    ):
        with pytest.raises(typer.Exit) as end:
            study.main(out, **wrong)
        assert end.value.exit_code == 1 and says in capsys.readouterr().err


def _key(sample, way, compression, seed, model):
    return {"model": model, "way": way, "compression": 1.0 if way == "perfect" else compression, "seed": seed}


def test_gaps_are_those_of_pairs_with_one_seed():
    same = {"model": "dlrm", "rows": 100, "drift": 0.05, "collisions": 0.5}
    runs = [
        {"way": way, "compression": c, "seed": seed, "auc": auc, "size": 1 / c, "rare": rare, **same}
        for way, c, seed, auc, rare in [
            ("perfect", 1.0, 0, 0.70, 0.1),
            ("perfect", 1.0, 1, 0.72, 0.1),
            ("hashed", 5.0, 0, 0.69, 0.1),
            ("hashed", 5.0, 1, 0.73, 0.1),
            ("hashed", 1.0, 1, 0.71, 0.1),
            ("hashed", 5.0, 2, 0.5, 0.1),
            ("perfect", 1.0, 0, 0.8, 0.4),
            ("hashed", 5.0, 0, 0.6, 0.4),
        ]
    ]
    found = embedding_charts.against_perfect(runs, rare=0.1)
    assert [(c, s, pytest.approx(g)) for c, s, g in found["hashed"]] == [(1.0, 1.0, [-0.01]), (5.0, 0.2, [-0.01, 0.01])]
    chart = embedding_charts.size_curve({"machine": "a machine", "runs": runs}, title="A study", rare=0.4)
    assert [trace.name for trace in chart.data if trace.name] == ["hashed"]
    chart = embedding_charts.size_curve({"machine": "a machine", "runs": runs}, title="A study", published=True, rare=0.1)
    assert [trace.name for trace in chart.data if trace.name] == ["hashed", embedding_charts.PUBLISHED[2]]
    found = [line.split()[-4:] for line in embedding_charts.wins(runs).splitlines()[1:]]
    assert [(ahead, seeds, pytest.approx(float(by), abs=1e-4)) for ahead, _, seeds, by in found] == [
        ("1", "1", 0.01),
        ("1", "2", 0.0),
        ("1", "1", 0.2),
    ]


def test_a_variable_can_stand_for_a_row_for_each_id():
    """Of each model by itself, and runs of "perfect" beside it change nothing."""
    same = {"rows": 100, "rare": 0.1, "drift": 0.05, "collisions": 0.5, "size": 1.0}
    aucs = {("dlrm", "variable"): 0.7, ("dlrm", "hashed"): 0.69, ("dlrm", "perfect"): 0.5, ("wdl", "variable"): 0.6}
    aucs[("wdl", "hashed")] = 0.62
    runs = [{"model": m, "way": way, "compression": 1.0, "seed": 0, "auc": auc, **same} for (m, way), auc in aucs.items()]
    heading, *lines = embedding_charts.wins(runs, perfect="variable").splitlines()
    assert "variable ahead" in heading
    assert [(line.split()[0], *line.split()[-4:]) for line in lines] == [
        ("dlrm", "1", "of", "1", "+0.0100"),
        ("wdl", "0", "of", "1", "-0.0200"),
    ]


def test_records_have_what_lessons_show():
    for name, wanted in (("real", {}), ("generated", {"rare": 0.05}), ("generated", {"rare": 0.4})):
        record = embedding_charts.recorded(name)
        assert "hashed" in embedding_charts.against_perfect(record["runs"], **wanted)
        assert record["machine"] and record["made by"]
    with pytest.raises(UnknownName, match=r"recorded study 'reel'.*Did you mean 'real'"):
        embedding_charts.recorded("reel")


def test_real_rows_or_one_sentence(monkeypatch):
    monkeypatch.delenv("CTRLAB_REAL_DATA", raising=False)
    with pytest.raises(CtrlabError, match="CTRLAB_REAL_DATA"):
        study.real()

"""How often a row for each id came out ahead."""

import pytest
from ctrlab.lessons.topics.collisions.wins import wins


def test_wins_are_those_of_pairs_with_one_seed():
    same = {"model": "dlrm", "rows": 100, "drift": 0.05, "collisions": 0.5, "rare": 0.1}
    found = [("perfect", 1.0, 0, 0.70), ("perfect", 1.0, 1, 0.72), ("hashed", 5.0, 0, 0.69), ("hashed", 5.0, 1, 0.73)]
    found += [("hashed", 1.0, 1, 0.71), ("hashed", 5.0, 2, 0.5)]
    runs = [{"way": way, "compression": c, "seed": seed, "auc": auc, "size": 1 / c, **same} for way, c, seed, auc in found]
    runs += [runs[0] | {"auc": 0.8, "rare": 0.4}, runs[2] | {"auc": 0.6, "rare": 0.4}]
    found = [line.split()[-4:] for line in wins(runs).splitlines()[1:]]
    assert [(ahead, seeds, pytest.approx(float(by), abs=1e-4)) for ahead, _, seeds, by in found] == [
        ("1", "1", 0.01),
        ("1", "2", 0.0),
        ("1", "1", 0.2),
    ]


def test_a_variable_can_stand_for_a_row_for_each_id():
    """It holds for each model separately, and runs of "perfect" beside it change nothing."""
    same = {"rows": 100, "rare": 0.1, "drift": 0.05, "collisions": 0.5, "size": 1.0}
    aucs = {("dlrm", "variable"): 0.7, ("dlrm", "hashed"): 0.69, ("dlrm", "perfect"): 0.5, ("wdl", "variable"): 0.6}
    aucs[("wdl", "hashed")] = 0.62
    runs = [{"model": m, "way": way, "compression": 1.0, "seed": 0, "auc": auc, **same} for (m, way), auc in aucs.items()]
    heading, *lines = wins(runs, perfect="variable").splitlines()
    assert "variable ahead" in heading
    assert [(line.split()[0], *line.split()[-4:]) for line in lines] == [
        ("dlrm", "1", "of", "1", "+0.0100"),
        ("wdl", "0", "of", "1", "-0.0200"),
    ]

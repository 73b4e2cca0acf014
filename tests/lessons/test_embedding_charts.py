"""The charts of table sizes, and the records that lessons show."""

import numpy as np
import pytest

from ctrlab.errors import UnknownName
from ctrlab.lessons import embedding_charts


def test_in_the_records_a_variable_is_no_worse_than_hashing():
    """It holds on real rows, for the mean over seeds within the seeds' own spread; with all ids, and with a quarter of them."""

    def aucs(name, way):
        runs = embedding_charts.recorded(name)["runs"]
        return np.array([r["auc"] for r in runs if r["way"] == way and r["compression"] == 1.0 and r["data"] == "real"])

    hashed = aucs("real", "hashed")
    for way in ("variable", "variable, from the second time"):
        received = aucs("variable", way)
        assert len(received) >= 3 and len(hashed) >= 2
        assert received.mean() > hashed.mean() - np.ptp(hashed)


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


def test_records_have_what_lessons_show():
    for name, wanted in (("real", {}), ("generated", {"rare": 0.05}), ("generated", {"rare": 0.4})):
        record = embedding_charts.recorded(name)
        assert "hashed" in embedding_charts.against_perfect(record["runs"], **wanted)
        assert record["machine"] and record["made by"]
    with pytest.raises(UnknownName, match=r"recorded study 'reel'.*Did you mean 'real'"):
        embedding_charts.recorded("reel")

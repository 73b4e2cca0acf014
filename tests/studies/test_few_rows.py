"""The splits of the study on few rows, and its table."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ctrlab.errors import CtrlabError
from studies.few_rows import bench
from studies.few_rows.bench import FewRows
from studies.few_rows.command import report


@pytest.mark.parametrize("rows, count", [(1_000, 5), (30_000, 2), (50_000, 1)])
def test_no_row_is_in_two_parts_and_test_rows_are_not_validation_rows(tmp_path, rows, count):
    pq.write_table(pa.table({"x": np.arange(90_000)}), tmp_path / "all.parquet")
    files = SimpleNamespace(name="own", train=[tmp_path / "all.parquet"], test=[])
    parts = []
    for validation, test in zip(bench.splits(files, rows, "validation"), bench.splits(files, rows, "test"), strict=True):
        assert validation.fit == test.fit and validation.stop == test.stop and len(test.fit) + len(test.stop) == rows
        assert len(test.scored) == bench.SCORED
        parts += [validation.fit, validation.stop, validation.scored, test.scored]
    numbers = np.concatenate([part["x"].to_numpy() for part in parts])
    assert len(parts) == 4 * count and np.all(np.diff(numbers) > 0), "in the order of the sample"


def test_without_the_samples_it_says_what_it_needs(monkeypatch):
    monkeypatch.delenv("CTRLAB_REAL_DATA", raising=False)
    with pytest.raises(CtrlabError, match="Real criteo data are needed: set CTRLAB_REAL_DATA"):
        list(bench.compare("criteo", 1_000, ["wdl"], ["few_rows"], "test"))


def test_the_table_has_the_distance_from_the_regression_on_the_same_splits():
    found = [
        FewRows("criteo", 8_000, bench.REGRESSION, "", {"label": [0.70, 0.72]}),
        FewRows("criteo", 8_000, "wdl", "few_rows", {"label": [0.71, 0.70]}),
    ]
    [regression, ours] = report(found, "test").parts[0].lines
    assert regression[3:] == [bench.REGRESSION, "", "0.7100", "", "", "2"]
    assert ours[3:] == ["wdl", "few_rows", "0.7050", "-0.0050", "-0.0200 to +0.0100", "2"]


@pytest.mark.long
def test_a_data_set_gets_a_row_a_model(monkeypatch):
    monkeypatch.setenv("CTRLAB_PROFILE", "tiny")
    monkeypatch.setattr(bench, "EPOCHS", 1)
    monkeypatch.setattr(bench, "SPLITS", 2)
    found = list(bench.compare("census_income", 500, ["deepfm"], ["small", "few_rows"], "validation", "generated"))
    assert [(each.model, each.size) for each in found[-2:]] == [("deepfm", "small"), ("deepfm", "few_rows")]
    assert all(0 < area < 1 for each in found for areas in each.auc.values() for area in areas)

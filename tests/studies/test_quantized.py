"""`ctrlab bench quantized`, to its end: the rungs' answers, sizes and times, and where the AUC falls."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from ctrlab import data
from ctrlab.errors import CtrlabError
from studies.app import app
from studies.quality import bench as quality
from studies.quantized import bench as quantized
from studies.quantized.bench import BITS, RUNGS, QuantizedModel, Rung


def rung(auc, calibration, cpu) -> Rung:
    return Rung({"label": auc}, {"label": calibration}, 0.0, 8, 9, cpu)


def found(auc_of_bits) -> QuantizedModel:
    rungs = {
        "float32": rung([0.7, 0.8, 0.9], [1.0, 1.1, 1.2], [3.0, 4.0, 6.0]),
        "int8_rows": rung([0.6, 0.75, 0.9], [1.1, 1.2, 1.1], [1.0, 2.0, 2.0]),
    }
    return QuantizedModel("deepfm", "food_delivery", "generated", 9, rungs, {"label": 0.8}, [8, 4, 2], {"label": auc_of_bits})


def test_rungs_are_compared_slice_by_slice_and_round_by_round():
    one = found([0.8, 0.8, 0.8])
    assert one.apart("auc", "int8_rows", "label").median == pytest.approx(-0.05)
    assert one.apart("calibration", "int8_rows", "label").median == pytest.approx(0.1)
    assert one.less_cpu("int8_rows").median == 3.0
    assert one.apart("auc", "float32", "label").median == 0 and one.less_cpu("float32").high == 1


@pytest.mark.parametrize(
    ("areas", "bits"), [([0.8, 0.8, 0.8], None), ([0.8, 0.798, 0.7], 4), ([0.8, 0.7995, 0.7], 2), ([0.7, 0.8, 0.8], 8)]
)
def test_bits_at_which_the_auc_falls(areas, bits):
    assert found(areas).falls_at("label") == bits


@pytest.mark.timeout(600)
def test_the_command(tmp_path):
    out, page = tmp_path / "quantized.json", tmp_path / "quantized.html"
    words = ["quantized", "deepfm", "--profile", "tiny", "--json", str(out), "--html", str(page)]
    ran = CliRunner(env={"COLUMNS": "160"}).invoke(app, words)
    assert ran.exit_code == 0, ran.output
    assert "int8_rows" in ran.output and "deepfm, clicked: AUC 0." in ran.output
    record = json.loads(out.read_text())
    assert record["profile"] == "tiny"
    [one] = [QuantizedModel.from_json(each) for each in record["models"]]
    assert list(one.rungs) == list(RUNGS) and one.bits == list(BITS) and one.rows == 820
    sizes = [each.weights_bytes for each in one.rungs.values()]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > 1.3 * sizes[1]
    for each in one.rungs.values():
        assert each.weights_bytes < each.total_bytes and len(each.cpu) == 3 and min(each.cpu) > 0
    assert one.rungs["float32"].largest == 0 < one.rungs["bf16_rows"].largest < 0.02
    assert 0 < one.rungs["int8_rows"].largest < 0.02
    assert abs(one.auc_of_bits["clicked"][0] - one.auc["clicked"]) < 0.002
    drawn = page.read_text()
    assert all(
        measure in drawn for measure in ("AUC, difference", "calibration, difference", "weights (MB)", "CPU per request (us)")
    )


@pytest.mark.study
@pytest.mark.timeout(600)
def test_real_rows_are_trained_on_until_they_gain_no_more(monkeypatch):
    """Two tasks; the rows are generated ones of the data set that stands in for Taobao's."""
    monkeypatch.setattr(quality, "EPOCHS", 1)
    asked, prepare = [], data.prepare
    monkeypatch.setattr(data, "prepare", lambda name, **options: asked.append((name, options)) or prepare(name, profile="tiny"))
    one = quantized.bench_quantized("mmoe", "census_income", "real", "tiny")
    assert asked == [("census_income", {"source": "real"})]
    assert (one.data_set, one.source, one.auc.keys()) == ("census_income", "real", {"income_50k", "never_married"})
    assert all(len(areas) == len(BITS) for areas in one.auc_of_bits.values())
    assert np.isfinite([one.apart("auc", "int8_rows", task).median for task in one.auc]).all()


def test_without_real_rows_it_says_so(monkeypatch):
    monkeypatch.delenv("CTRLAB_REAL_DATA", raising=False)
    with pytest.raises(CtrlabError, match="Real criteo data are needed"):
        quantized.bench_quantized("deepfm", "criteo", "real", "tiny")

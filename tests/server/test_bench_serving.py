"""`ctrlab bench serving`, to its end on one model: every side answers alike, and every figure is there."""

import json

import pytest
from typer.testing import CliRunner

from ctrlab.cli import app
from ctrlab.errors import CtrlabError
from ctrlab.server.bench import beside_stock
from ctrlab.server.bench.beside_stock import SHORT, SIDES, SideOnModel


@pytest.fixture
def few(monkeypatch):
    """Without the stock server in Python, whose environment would be fetched."""
    monkeypatch.setattr(beside_stock, "STOCK", "stock, our processor")
    monkeypatch.setattr(beside_stock, "SIDES", tuple(s for s in SIDES if s.name in ("stock, our processor", "all, user once")))
    monkeypatch.setattr(beside_stock, "LEAST_STOCK", 0.5)
    monkeypatch.setattr(beside_stock, "CANDIDATES", (20,))


@pytest.mark.timeout(600)
def test_the_command(few, tmp_path, monkeypatch):
    out = tmp_path / "serving.json"
    words = ["bench", "serving", "din", "--profile", "tiny", "--json", str(out)]
    found = CliRunner(env={"COLUMNS": "200"}).invoke(app, words)
    assert found.exit_code == 0, found.output
    assert "all, user once" in found.output and f"within {1e3 * SHORT:g} ms" in found.output
    rows = [SideOnModel(**row) for row in json.loads(out.read_text())["rows"]]
    assert {(row.rows, row.side) for row in rows} == {(n, side.name) for n in (20,) for side in beside_stock.SIDES}
    for row in rows:
        assert len(row.cpu) == 3 and min(row.cpu) > 0 and row.difference <= beside_stock.SAME
        assert len(row.most) == len(row.most_short) == 1 and row.most[0] >= 0
    [shared] = (row for row in rows if row.side == "all, user once")
    assert len(shared.alone) == 3 and 0 < min(shared.alone) < max(shared.cpu)  # a front costs


@pytest.mark.long
def test_sides_that_answer_otherwise_are_not_compared(few, monkeypatch):
    monkeypatch.setattr(beside_stock, "SAME", -1.0)
    with pytest.raises(CtrlabError, match="the same answers"):
        list(beside_stock.bench_serving(["deepfm"], "tiny"))


@pytest.mark.long
def test_a_limit_that_the_stock_server_cannot_hold_says_nothing(few, monkeypatch):
    monkeypatch.setattr(beside_stock, "LEAST_STOCK", 1e9)
    with pytest.raises(CtrlabError, match="A comparison under load needs a stock server that does 1e"):
        list(beside_stock.bench_serving(["deepfm"], "tiny"))

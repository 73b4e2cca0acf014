"""`ctrlab race`, from its options to its table and files, with workers that only pretend."""

import json

import pytest
from typer.testing import CliRunner

from ctrlab import cli
from ctrlab.race import runner

SETS = ("none", "stock", "all-input", "all")


@pytest.fixture
def call(fake_race):
    arguments = ["race", "--profile", "tiny", "--models", "deepfm,mmoe", "--optimizations", ",".join(SETS)]
    return lambda *more: CliRunner(env={"COLUMNS": None}).invoke(cli.app, [*arguments, *map(str, more)])


def test_a_table_that_goes_to_a_file_has_every_set_s_name_and_whole_aucs(call, tmp_path):
    found = call("--json", tmp_path / "race.json", "--html", tmp_path / "race.html")
    assert found.exit_code == 0, found.output
    result = json.loads((tmp_path / "race.json").read_text())
    lines = found.stdout.splitlines()
    table = [line.split() for line in lines[: next(i for i, line in enumerate(lines) if line.startswith("Report"))]]
    assert max(map(len, lines[: len(table)])) <= 100 and "…" not in found.stdout
    for entry in result["models"]:
        for variant in entry["variants"]:
            [line] = [cells for cells in table if cells[:2] == [entry["model"], variant["optimizations"]]]
            first, *others = variant["auc"].values()
            assert f"{first:.4f}" in line
            assert all(any(f"{auc:.4f}" in cells for cells in table) for auc in others)
    assert {cells[1] for cells in table if cells[:1] == ["total"]} == set(SETS)
    assert (tmp_path / "race.html").exists() and str(tmp_path / "race.json") in lines[-1]


def test_files_that_can_t_be_written_are_said_before_the_race(call, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "race", None)
    for option in ("--json", "--html"):
        found = call(option, tmp_path / "nowhere" / "race")
        assert found.exit_code == 1 and "must be in an existing folder" in found.stderr

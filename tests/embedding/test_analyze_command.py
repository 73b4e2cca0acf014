"""`ctrlab embedding analyze`: the same keys from a folder, a delta or shards as the variables hold, and sums that are right."""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest
from runs_with_tables import new_run, train_to
from typer.testing import CliRunner

from ctrlab import cli
from ctrlab.embedding import BloomFilter, Options, analysis, analysis_summary
from ctrlab.embedding.formats.resharding import reshard
from ctrlab.embedding.formats.saves import Save, files_in
from ctrlab.embedding.formats.tensor_file import write_tensors
from ctrlab.embedding.table_state import TableState
from ctrlab.training import Checkpoints


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a full save of step 3 and deltas of 6 and 9; what the tables held then."""
    folder, run = tmp_path_factory.mktemp("run"), new_run()
    with Checkpoints(folder, *run, every=3, full_every=3) as checkpoints:
        train_to(run, 9, checkpoints)
    assert [path.name.count("delta") for path in files_in(folder).values()] == [0, 1, 1]
    return folder, {name: table.state() for name, table in run[0].tables().items()}


@pytest.fixture
def call():
    return lambda *arguments: CliRunner(env={"COLUMNS": "120"}).invoke(
        cli.app, ["embedding", "analyze", *(str(a) for a in arguments)]
    )


def rows(table):
    return sorted(table.to_pylist(), key=lambda row: (row["feature"], row["id"]))


@pytest.mark.parametrize("place", ["folder", "delta", "shards"])
def test_every_key_of_the_tables_wherever_it_is_read_from(saved, call, tmp_path, place):
    folder, states = saved
    last = list(files_in(folder).values())[-1]
    given = [folder] if place == "folder" else [last]
    if place == "shards":
        run = new_run()
        with Checkpoints(tmp_path / "full", *run) as checkpoints:
            train_to(run, 9)
            checkpoints.save_last()
        given = reshard(list(files_in(tmp_path / "full").values()), 3, tmp_path / "three")
    found = call(*given, "--out", tmp_path / "report.parquet", "--json", tmp_path / "sums.json")
    assert found.exit_code == 0, found.output
    expected = analysis.report(states, dict.fromkeys(states))
    assert rows(analysis.read(tmp_path / "report.parquet")) == rows(expected)
    assert expected["tier"].null_count == len(expected) > 0
    sums = json.loads((tmp_path / "sums.json").read_text())
    assert sums["step"] == 9 and sum(bin["ids"] for bin in sums["ages"]) == len(expected)
    for entry in sums["features"]:
        state = states[entry["feature"]]
        assert (entry["rows"], entry["counted"]) == (len(state.keys), len(state.candidate_keys))
        assert f"{entry['rows']:,}" in found.stdout


def test_sums_by_hand():
    """With D = 2 and one slot, a row takes 36 bytes; a key that is only counted takes 16."""
    item = TableState(
        np.array([1, 2]),
        np.ones((2, 2), np.float32),
        {"m": np.zeros((2, 2), np.float32)},
        np.array([6, 3]),
        np.array([10, 8]),
        np.array([3]),
        np.array([1]),
        np.array([4]),
    )
    found = analysis_summary.summary(analysis.report({"item": item}, {"item": None}), 10, {"item": 5})
    [entry] = found["features"]
    assert entry == {
        "feature": "item", "rows": 2, "counted": 1, "bytes": 2 * 47 + 27 + 5, "traffic": 10, "covered": 0.9, "median_age": 2.0,
    }  # fmt: skip
    left = {each["threshold"]: (each["rows"], each["bytes"], each["traffic"]) for each in found["admission"]}
    assert left[1] == (3, 3 * 47, 1.0) and left[3] == left[2] == (2, 2 * 47 + 27, 0.9)
    assert left[5] == (1, 47 + 2 * 27, 0.6) and left[100] == (0, 3 * 27, 0.0)
    ages = {(bin["from"], bin["to"]): (bin["ids"], bin["traffic"]) for bin in found["ages"]}
    assert ages == {(0, 0): (1, 6), (1, 1): (0, 0), (2, 3): (1, 3), (4, 7): (1, 1)}
    # Of 10 ids that came, keys 1 and 2 have 9; for 95 % all three must have a row. Of the 9 that rows cover, 3 are of key 2,
    # which is two steps old: no share of 90 % or more can do without it.
    shares = {each.pop("share"): tuple(each.values()) for each in found["coverages"]}
    assert shares == {0.9: (3, 2, 2, 2), 0.95: (1, 2, 3, 2), 0.99: (1, 2, 3, 2), 0.999: (1, 2, 3, 2)}


def test_what_keeps_a_share_of_the_traffic_is_printed(saved, call):
    folder, states = saved
    table = analysis.report(states, dict.fromkeys(states))
    found = call(folder)
    for share in (0.9, 0.999):
        line = next(line for line in found.stdout.splitlines() if f" {share:.1%} " in line)
        numbers = [int(part) for part in line.replace(",", "").split() if part.isdigit()]
        suggested = analysis.suggest_threshold(table, share), analysis.suggest_steps_to_live(table, share, 9)
        assert (numbers[0], numbers[2]) == suggested


def test_tables_that_nothing_came_to_suggest_nothing():
    none = TableState(np.zeros(0, np.int64), np.zeros((0, 2), np.float32), {}, *np.zeros((2, 0), np.int64))
    assert analysis_summary.summary(analysis.report({"item": none}), 0, {"item": 0})["coverages"] == []


def test_a_bloom_filter_counts_as_memory(call, tmp_path):
    run = new_run({"item": Options(admission=BloomFilter(2, expected_keys=1_000))})
    with Checkpoints(tmp_path, *run) as checkpoints:
        train_to(run, 2)
        checkpoints.save_last()
    size = len(run[0].tables()["item"].state().filter)
    assert call(tmp_path, "--json", tmp_path / "sums.json").exit_code == 0
    [entry] = json.loads((tmp_path / "sums.json").read_text())["features"]
    assert entry["bytes"] == size + entry["rows"] * (31 + 2 * 4 * 3) and size > 1_000  # AdamAsync has two slots


def test_one_feature_and_its_plots(saved, call, tmp_path):
    folder, states = saved
    found = call(folder, "--feature", "shop", "--out", tmp_path / "shop.parquet", "--html", tmp_path / "shop.html")
    assert found.exit_code == 0, found.output
    table = analysis.read(tmp_path / "shop.parquet")
    assert set(table["feature"].to_pylist()) == {"shop"} and len(table) == sum(
        map(len, (states["shop"].keys, states["shop"].candidate_keys))
    )
    page = (tmp_path / "shop.html").read_text()
    for title in ("How often ids came", "Admit an id when it has come so often", "How long ago ids last came"):
        assert title in page


def test_it_needs_no_tensorflow(saved, tmp_path):
    code = """
import sys
from ctrlab import cli
try:
    cli.app(["embedding", "analyze", *sys.argv[1:]])
except SystemExit as end:
    assert not end.code, end.code
sys.exit("TensorFlow was imported" if "tensorflow" in sys.modules else 0)
"""
    arguments = [saved[0], "--html", tmp_path / "page.html", "--out", tmp_path / "report.parquet"]
    found = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr


def no_tables(folder):
    save = Save.full(1, 1, {})
    write_tensors(folder / save.name, {"model/w": np.zeros(1, np.float32)}, save.to_metadata())


@pytest.mark.parametrize(
    ("breaks", "arguments", "says"),
    [
        (lambda folder: None, ["nothing"], r"nothing can't be read: No such file"),
        (lambda folder: None, ["."], r"no whole checkpoint"),
        (no_tables, ["."], r"has no embedding variables"),
        (no_tables, [".", "--out", "no/report.parquet"], r"existing folder; no is not one"),
    ],
)
def test_what_can_t_be_analyzed_is_said_in_one_sentence(call, tmp_path, monkeypatch, breaks, arguments, says):
    monkeypatch.chdir(tmp_path)
    breaks(tmp_path)
    found = call(*arguments)
    assert found.exit_code == 1 and len(found.stderr.splitlines()) == 1
    assert says in found.stderr


def test_unknown_feature_and_no_plotly(saved, call, tmp_path, monkeypatch):
    found = call(saved[0], "--feature", "shopp")
    assert found.exit_code == 1 and "Did you mean 'shop'" in found.stderr
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = call(saved[0], "--html", tmp_path / "page.html")
    assert found.exit_code == 1 and "Plots need plotly" in found.stderr and not (tmp_path / "page.html").exists()

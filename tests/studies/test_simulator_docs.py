"""The guide's numbers of the simulator are those that its commands say."""

import re
from pathlib import Path

import pytest
from ctrlab.lessons.topics.more_workers import constants, published
from typer.testing import CliRunner

from ctrlab.embedding import analysis
from studies.app import app

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/several_workers.md").read_text()
PART = GUIDE.partition("## Simulate before you rent")[2].partition("## What each fault")[0]


def rows(table: str) -> dict[str, list[str]]:
    """The body of a table of the guide, by its first header."""
    lines = [line.strip("| ").split(" | ") for line in PART.splitlines() if line.startswith("|") and "---" not in line]
    first = next(i for i, cells in enumerate(lines) if cells[0].startswith(table))
    body = lines[first + 1 :]
    return {name: cells for name, *cells in body[: next((i for i, cells in enumerate(body) if "%" in cells[0][:9]), len(body))]}


def test_errors_are_those_of_the_check():
    records = [str(ROOT / f"data/measurements/workers_{name}.json") for name in ("fitted", "held_out")]
    ran = CliRunner(env={"COLUMNS": "130"}).invoke(app, ["simulator-check", *records])
    assert ran.exit_code == 0, ran.output
    said = rows("error")
    assert len(said) == 4
    for name, cells in said.items():
        assert re.search(rf"{name} +│ +" + r" +│ +".join(map(re.escape, (cells[0], *cells[1:]))), ran.output), name
    per_worker = re.search(r"(\d+) ms x workers", ran.output)[1]
    assert f"{per_worker} ms per worker" in PART


@pytest.mark.study
def test_shares_of_draws_are_those_of_the_command():
    said, joint = rows("% of draws"), {factor: published.joint(factor) for factor in published.FACTORS}
    assert list(said) == list(joint[2.0])
    for name, cells in said.items():
        assert cells == [f"{100 * shares[name]:.0f}" for shares in joint.values()], name
    assert f"all {len(published.BASE)} are drawn together {published.DRAWS} times" in PART


def test_the_launches_are_those_that_were_counted():
    before, after = (float(share[0]) for share in published.launch_shares([constants.AWS_BATCH]))
    assert f"{100 * before:.0f} % and {100 * after:.0f} %" in PART and "260 of 336" in PART
    assert pytest.approx(260 / 336) == constants.COMPILED


def test_an_index_takes_what_the_guide_says():
    assert re.search(rf"A key takes\s{analysis.INDEX_BYTES} bytes of a table's index", PART)

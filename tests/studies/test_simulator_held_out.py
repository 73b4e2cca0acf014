"""The simulator's predictions for real steps over slow links to which its constants were not fitted."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from studies.app import app

RECORDS = Path(__file__).parents[2] / "data" / "measurements"


def test_steps_that_were_held_out_are_within_a_fifth(tmp_path):
    """Links of 100 Mbit/s; and 1,024 examples, three workers and links of 300 Mbit/s, none of which the fit has seen."""
    path = tmp_path / "found.json"
    records = [str(RECORDS / f"{name}.json") for name in ("workers_fitted", "workers_held_out")]
    ran = CliRunner().invoke(app, ["simulator-check", *records, "--json", str(path)])
    assert ran.exit_code == 0, ran.output
    found = json.loads(path.read_text())
    held_out, nulls = found["held_out"], found["null_held_out"]
    assert {(s["workers"], s["batch"], s["megabits"]) for s in held_out} >= {(4, 2_048, 100), (3, 1_024, 300), (3, 1_024, None)}
    for each in held_out:
        assert abs(each["simulated"] / each["measured"] - 1) < 0.2, each
    # The bound alone says little: a model of one fitted constant is within it, too, and is as good on average.
    errors, null = (np.array([each["simulated"] / each["measured"] - 1 for each in of]) for of in (held_out, nulls))
    assert abs(null).max() < 0.2 and abs(errors.mean() - null.mean()) < 0.02
    fitted, null_fitted = (np.array([s["simulated"] / s["measured"] - 1 for s in found[of]]) for of in ("used", "null_used"))
    assert abs(fitted).max() < 0.1 < 0.25 < abs(null_fitted).max()  # but it can't even say what it was fitted to
    lines = {cells[1].strip(): cells[2:5] for cells in (line.split("│") for line in ran.output.splitlines()) if len(cells) == 6}
    for kind, of in {"held out, simulator": errors, "held out, null model": null, "fitted, simulator": fitted}.items():
        shown = (abs(of).max(), of.mean(), of.std())
        assert [float(cell) for cell in lines[kind]] == pytest.approx([100 * each for each in shown], abs=0.06), kind

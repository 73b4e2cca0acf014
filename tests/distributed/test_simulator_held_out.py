"""What the simulator says of real steps over slow links that its constants were not fitted to."""

import json
from pathlib import Path

from typer.testing import CliRunner

from ctrlab import cli

RECORDS = Path(__file__).parents[2] / "data" / "measurements"


def test_steps_that_were_held_out_are_within_a_fifth(tmp_path):
    """Links of 100 Mbit/s; and 1,024 examples, three workers and links of 300 Mbit/s, none of which the fit has seen."""
    path = tmp_path / "found.json"
    records = [str(RECORDS / f"{name}.json") for name in ("workers_fitted", "workers_held_out")]
    ran = CliRunner().invoke(cli.app, ["workers", "check", *records, "--json", str(path)])
    assert ran.exit_code == 0, ran.output
    held_out = json.loads(path.read_text())["held_out"]
    assert {(s["workers"], s["batch"], s["megabits"]) for s in held_out} >= {(4, 2_048, 100), (3, 1_024, 300), (3, 1_024, None)}
    for each in held_out:
        assert abs(each["simulated"] / each["measured"] - 1) < 0.2, each

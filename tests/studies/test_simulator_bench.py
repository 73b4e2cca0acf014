"""`ctrlab bench simulator`: what it measures makes sense, and is shown."""

import json
from pathlib import Path

import pytest
from ctrlab.lessons.topics.more_workers.one_process import Parts
from rich.console import Console

from studies.simulator import measure
from studies.simulator.command import report

RECORD = json.loads((Path(__file__).parents[2] / "data" / "measurements" / "simulator.json").read_text())


@pytest.mark.study
def test_parts_of_a_step_are_measured():
    found = measure.parts("deepfm", "tiny", examples=(64, 256))
    assert {len(times) for times in found.seconds} == {3} and min(map(min, found.seconds)) > 0
    assert found.distinct.examples == (64, 256, 1_024, 4_096)
    assert found.distinct.vocabulary == 130_012  # rows of DeepFM's tables on the contest's data
    assert found.distinct(1e9) == 130_012
    assert 0 < found.tensor < 0.01
    assert found.launches.ops == RECORD["launches"]["ops"] and 0.3 < found.launches.left < 0.9


def test_a_record_is_read_and_shown():
    found = Parts.from_json({name: value for name, value in RECORD.items() if name != "machine"})
    out = Console(width=100)
    with out.capture() as shown:
        report(found).show(out)
    fixed, per_example = found.line
    assert f"{1e3 * fixed:.2f} ms per step" in shown.get() and f"{1e6 * per_example:.1f} us per example" in shown.get()
    assert f"{found.distinct(1_024):,.0f}" in shown.get()
    assert pytest.approx(RECORD["tensor"]) == found.tensor

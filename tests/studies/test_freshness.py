"""The whole loop on one machine: served, logged, joined, trained on, published, served."""

import json

import pytest

from ctrlab.errors import CtrlabError
from studies.freshness.bench import LoopTimes, measure


def test_clicks_come_back_as_answers_that_learned_from_them():
    said = []
    found = measure("din", LoopTimes(window=1, log_every=0.5, publish_every=0.5, seconds=12), "tiny", said.append)
    assert said == ["Training", "Serving"] and found.requests > 10 and found.steps > 1
    assert found.clicks == len(found.joined) == len(found.learned) > 100
    # A click is in a file once its window is over, and in the weights after that.
    assert min(found.joined) >= 1 and all(a <= b for a, b in zip(found.joined, found.learned))
    assert json.loads(json.dumps(found.to_json()))["clicks"] == found.clicks


@pytest.mark.study
def test_a_run_that_is_too_short_says_so():
    with pytest.raises(CtrlabError, match="measure for longer"):
        measure("din", LoopTimes(seconds=0.5), "tiny")

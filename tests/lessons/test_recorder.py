"""The recorder of request latencies."""

import pytest

from ctrlab.errors import CtrlabError
from ctrlab.lessons import recorder


def test_a_recorder_says_what_is_missing_and_draws_once_it_has_enough():
    class Chart:
        points = []  # noqa: RUF012 - of this test alone

        def add(self, name, x, y):
            self.points.append((name, y))

    took = recorder.Recorder(recorder.DRAWN + 1, Chart(), "p99")
    for number in range(recorder.DRAWN):
        took.add(number, 1_000 * (number + 1))
    assert Chart.points == [("p99", 99)]
    with pytest.raises(CtrlabError, match="1 of 101 are missing"):
        took.latencies  # noqa: B018
    took.add(recorder.DRAWN, 5)
    assert took.latencies[-1] == 5

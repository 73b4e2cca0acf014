"""Fixtures of the load's tests."""

import pytest

from ctrlab.load.outcome import Outcome


@pytest.fixture
def busy_machine(monkeypatch):
    """A generator may send ten seconds late, because other tests may have all cores."""
    monkeypatch.setattr(Outcome, "behind", lambda self, allowed=10: self.lag > 10)

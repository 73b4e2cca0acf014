"""A working folder that is thrown away."""

import pytest


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.setenv("CTRLAB_WORK", str(tmp_path / "work"))
    return tmp_path / "work"

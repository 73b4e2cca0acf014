"""A working folder that is thrown away, and kernels that count as the learner's."""

import pytest

from ctrlab.ops import kernel_swap


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.setenv("CTRLAB_WORK", str(tmp_path / "work"))
    return tmp_path / "work"


@pytest.fixture(autouse=True)
def restored():
    """Our kernels, whatever another test, also one of another file, has put in their place or was refused."""
    kernel_swap.restore()
    yield
    kernel_swap.restore()


@pytest.fixture
def swapped(monkeypatch):
    """Pretends that every kernel is the learner's and runs; the test provides the op's results."""
    monkeypatch.setattr(kernel_swap, "swapped", lambda: frozenset(kernel_swap.kernels()))
    monkeypatch.setattr(kernel_swap, "counts", lambda name, call: (call(), kernel_swap.Counts(1, 0))[1])

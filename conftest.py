"""What all tests share, those in `tests/` and those beside the lessons."""

import pytest

from tests import forked

pytest_plugins = ["pytester", "tests.durations"]


@pytest.fixture(scope="module")
def forked_processes():
    """What is started by `subprocess` in this module, by tests and by the package, is forked where it can be."""
    with forked.forking():
        yield

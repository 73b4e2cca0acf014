"""What the tests of lessons share with the package's own, and what nbval needs to run a lesson."""

from tests.conftest import real_data, small_batches  # noqa: F401 (fixtures)
from tests.lessons.conftest import restored, swapped, work  # noqa: F401 (fixtures)


def pytest_collection_modifyitems(items):
    """nbval takes a cell that has outputs but no execution count for one that never ran. Our files carry no counts: lend it one."""
    for item in items:
        cell = getattr(item, "cell", None)
        if cell is not None and cell.outputs and cell.execution_count is None:
            cell.execution_count = 0

"""What the tests of lessons share with the package's own."""

from tests.conftest import real_data, small_batches  # noqa: F401 (fixtures)
from tests.lessons.conftest import restored, swapped, work  # noqa: F401 (fixtures)

"""Tables on a disk that is full at a random moment and has room again: nothing is lost, applied twice or half.

A seed that failed is run alone, in seconds, by the line that `full_disk.py` begins with.
"""

from pathlib import Path

import full_disk
import pytest

HERE = Path(__file__).parent
PROBE = HERE / "full_disk_probe.py"
TRAINING = HERE / "filling_disk.py"
EVICTIONS = HERE / "refused_evictions.py"


@pytest.fixture(scope="module")
def on_a_disk_that_fills_up(tmp_path_factory):
    """`on_a_disk_that_fills_up(program, first seed, count)`: what it printed; all seeds must have held."""
    library = full_disk.build(tmp_path_factory.mktemp("library"))
    if library is None:
        pytest.skip("a disk that fills up is a C library: no compiler named cc is here")

    def check(program: Path, first: int, count: int) -> str:
        ended = full_disk.start(library, program, tmp_path_factory.mktemp("disk"), first, count)
        told = [line for line in ended.stdout.splitlines() if line.startswith("seed ")]
        assert ended.returncode == 0 and len(told) == count, "\n".join(told) or ended.stdout
        return ended.stdout

    return check


def test_the_disk_refuses_what_it_was_told_to_and_nothing_else(on_a_disk_that_fills_up):
    on_a_disk_that_fills_up(PROBE, 0, 1)


def test_a_training_on_a_disk_that_fills_up(on_a_disk_that_fills_up):
    on_a_disk_that_fills_up(TRAINING, 0, 5)


def test_an_eviction_that_is_refused_half_way(on_a_disk_that_fills_up):
    on_a_disk_that_fills_up(EVICTIONS, 0, 5)


@pytest.mark.long
@pytest.mark.parametrize("first", range(100, 200, 10))
def test_a_hundred_trainings_on_a_disk_that_fills_up(on_a_disk_that_fills_up, first):
    on_a_disk_that_fills_up(TRAINING, first, 10)


@pytest.mark.long
def test_a_hundred_evictions_that_are_refused_half_way(on_a_disk_that_fills_up):
    on_a_disk_that_fills_up(EVICTIONS, 100, 100)

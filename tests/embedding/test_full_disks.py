"""Tables on a disk that is full at a random moment and has room again: nothing is lost, applied twice or half.

A seed that failed is run alone, in seconds, by the line that `full_disk.py` begins with.
"""

import re
from pathlib import Path

import full_disk
import pytest

HERE = Path(__file__).parent
PROBE = HERE / "full_disk_probe.py"
TRAINING = HERE / "filling_disk.py"
EVICTIONS = HERE / "evicting_on_a_full_disk.py"
MET = {
    PROBE: {"calls refused"},
    TRAINING: {"calls refused", "refusals"},
    EVICTIONS: {"calls refused", "refusals"},
}
"""Events that some seeds of a program must have counted, because otherwise the disk has refused nothing."""


@pytest.fixture(scope="module")
def on_a_disk_that_fills_up(tmp_path_factory):
    """`on_a_disk_that_fills_up(program, first seed, count)`: all seeds must have held.

    The disk must have refused calls of the program's own, and, where the program counts them, it must have met refusals.
    """
    library = full_disk.build(tmp_path_factory.mktemp("library"))
    if library is None:
        pytest.skip("a disk that fills up is a C library: no compiler named cc is here")

    def check(program: Path, first: int, count: int) -> None:
        ended = full_disk.start(library, program, tmp_path_factory.mktemp("disk"), first, count)
        told = [line for line in ended.stdout.splitlines() if line.startswith("seed ")]
        assert ended.returncode == 0 and len(told) == count, "\n".join(told) or ended.stdout
        counts = {what: int(n) for line in told for n, what in re.findall(r", (\d+) ([a-z ]+)", line) if int(n)}
        assert set(counts) == MET[program], f"the disk was never full where it matters: {told}"

    return check


def test_the_disk_refuses_what_it_was_told_to_and_nothing_else(on_a_disk_that_fills_up):
    on_a_disk_that_fills_up(PROBE, 0, 1)


def test_a_training_on_a_disk_that_fills_up(on_a_disk_that_fills_up):
    on_a_disk_that_fills_up(TRAINING, 0, 5)


def test_evictions_on_a_full_disk(on_a_disk_that_fills_up):
    on_a_disk_that_fills_up(EVICTIONS, 0, 5)


@pytest.mark.long
@pytest.mark.parametrize("first", range(100, 120, 10))
def test_twenty_evictions_on_a_full_disk(on_a_disk_that_fills_up, first):
    on_a_disk_that_fills_up(EVICTIONS, first, 10)


@pytest.mark.long
@pytest.mark.parametrize("first", range(100, 200, 10))
def test_a_hundred_trainings_on_a_disk_that_fills_up(on_a_disk_that_fills_up, first):
    on_a_disk_that_fills_up(TRAINING, first, 10)

"""The store of rows under sanitizers: against std::map, killed, without power, damaged, on a full disk, by many threads."""

import subprocess
import tempfile
from pathlib import Path

import pytest
from compiled import CXX, NATIVE, sanitized, units
from compiled import program as compiled

STORE = NATIVE / "store"

# Under sanitizers the checks take a compiler a minute of a quiet core.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", params=["address,undefined", "thread"])
def program(request):
    # All that a store needs: nothing of a table's.
    parts = units([STORE / "check" / "check_store.cc", *sorted(STORE.glob("*.cc"))], CXX)
    # What check_store_power.h and check_store_calls.h put in place of these; the last two are operator new.
    calls = ("fdatasync", "fsync", "syscall", "_Znwm", "_ZnwmSt11align_val_t")
    return compiled("check_store", parts, sanitized(request.param), libraries=[f"-Wl,--wrap={call}" for call in calls])


def passes(program, what, seed, folder):
    ran = subprocess.run([program, what, folder / "data", str(seed)], capture_output=True, text=True, timeout=300)
    if "unexpected memory mapping" in ran.stderr:
        pytest.skip("ThreadSanitizer of this compiler does not run under this system's address space layout")
    assert (ran.returncode, ran.stdout) == (0, f"passed {what} {seed}\n"), ran.stdout + ran.stderr


def in_memory():
    """A folder for thousands of little files, none of which need outlive a loss of power."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)


WHAT = ["random", "full", "together", "odd", "again", "refused", "memory", "burst"]


@pytest.mark.parametrize("what", [*WHAT, "unsealed", "held", "scratch", "relieved", "fork", "forked-snapshot", "close"])
def test_the_store_is_right_and_clean(program, what, tmp_path):
    passes(program, what, 1, tmp_path)


def test_no_flipped_bit_and_no_cut_goes_by_in_silence(program):
    with in_memory() as folder:
        passes(program, "damage", 1, Path(folder))


# A disk's states are many and so are the seeds; the threads' accesses are the same with each.
LOSSES = [("address,undefined", seed) for seed in range(3)] + [("thread", 0)]
LOSSES += [pytest.param("thread", seed, marks=pytest.mark.long) for seed in (1, 2)]


@pytest.mark.parametrize("program,seed", LOSSES, indirect=["program"], scope="module")
def test_a_loss_of_power_leaves_a_state_since_the_last_flush(program, seed):
    with in_memory() as folder:
        passes(program, "power", seed, Path(folder))


# Four lives each: 12 kills a sanitizer here, 100 in the long run.
@pytest.mark.parametrize("seed", range(3))
def test_a_killed_writer_leaves_a_state_since_its_last_flush(program, seed, tmp_path):
    passes(program, "kill", seed, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 125))
def test_a_writer_killed_a_hundred_times(program, seed, tmp_path):
    passes(program, "kill", seed, tmp_path)

"""The weights of an export and their updates under sanitizers: whole, damaged, of anything, by many threads, without memory."""

import subprocess
import tempfile
from pathlib import Path

import pytest
from compiled import CXX, NATIVE, sanitized, units
from compiled import program as compiled

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", params=["address,undefined", "thread"])
def program(request):
    return made("check_serving", request.param)


@pytest.fixture(scope="module", params=["address,undefined", "thread"])
def updates(request):
    return made("check_update", request.param)


def made(name, sanitizers):
    sources = [NATIVE / "serving" / "check" / f"{name}.cc", NATIVE / "table" / "check" / "failing_new.cc"]
    sources += [source for part in ("serving", "table", "store") for source in sorted((NATIVE / part).glob("*.cc"))]
    wrapped = ["-Wl,--wrap=mmap,--wrap=munmap"]
    return compiled(name, units(sources, CXX), sanitized(sanitizers), libraries=wrapped)


def passes(program, what, seed):
    memory = Path("/dev/shm")  # thousands of little files, none of which need outlive a loss of power
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        ran = subprocess.run([program, what, folder, str(seed)], capture_output=True, text=True, timeout=600)
    if "unexpected memory mapping" in ran.stderr:
        pytest.skip("ThreadSanitizer of this compiler does not run under this system's address space layout")
    assert (ran.returncode, ran.stdout) == (0, f"passed {what} {seed}\n"), ran.stdout + ran.stderr


RUNS = [("address,undefined", what) for what in ("whole", "damage", "odd", "scales", "threads", "memory")]


@pytest.mark.parametrize("program,what", [*RUNS, ("thread", "threads")], indirect=["program"], scope="module")
def test_weights_are_loaded_whole_or_refused(program, what):
    passes(program, what, 1)


UPDATES = [("address,undefined", what) for what in ("apply", "damage", "odd", "threads", "memory")]


@pytest.mark.parametrize("updates,what", [*UPDATES, ("thread", "threads")], indirect=["updates"], scope="module")
def test_updates_are_applied_whole_or_refused(updates, what):
    passes(updates, what, 1)


@pytest.mark.long
@pytest.mark.parametrize("program", ["address,undefined"], indirect=True)
@pytest.mark.parametrize("seed", range(2, 12))
def test_odd_weights_for_long(program, seed):
    passes(program, "odd", seed)

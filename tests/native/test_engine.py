"""The engine of embedding variables under sanitizers: against a twin of std::map, and by several threads at once."""

import os
import subprocess
from pathlib import Path

import pytest
from compiled import CXX, NATIVE, sanitized, units
from compiled import program as compiled

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", params=["address,undefined", "thread"])
def program(request):
    sources = [NATIVE / "table" / "check" / f"{name}.cc" for name in ("check_engine", "failing_new")]
    sources += [NATIVE / "kernels" / "optimizer_step" / "optimizer_step.cc"]
    # What lies below a table here is a store of the check's own; only the C interface opens one on a disk.
    sources += [source for source in sorted((NATIVE / "table").glob("*.cc")) if source.stem != "engine_c"]
    wrapped = ["-Wl,--wrap=mmap,--wrap=munmap"]
    return compiled("check_engine", units(sources, CXX), sanitized(request.param), libraries=wrapped)


def check(program: Path, what: str, seed: int) -> subprocess.CompletedProcess:
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    ran = subprocess.run([program, what, str(seed)], capture_output=True, text=True, timeout=300, env=environment)
    if "unexpected memory mapping" in ran.stderr:
        pytest.skip("ThreadSanitizer of this compiler does not run under this system's address space layout")
    return ran


CHECKS = ["twin", "threads", "tiers", "memory", "closing", "waiting", "adopted", "demotion"]
CHECKS += ["together", "unadmitted", "disk", "little", "log", "imports", "changes"]
# Calls that fail at each of their allocations, and pages of memory that are counted: of one caller alone.
CHECKS_OF_MEMORY = ["allocations", "bytes"]

# ThreadSanitizer looks at the order of the threads' accesses, which another seed changes little; more seeds run for long.
RUNS = [("address,undefined", 1, what) for what in CHECKS_OF_MEMORY]
RUNS += [("address,undefined", seed, what) for seed in (1, 2) for what in CHECKS]
RUNS += [("thread", 1, what) for what in CHECKS]
RUNS += [pytest.param("thread", 1, what, marks=pytest.mark.long) for what in CHECKS_OF_MEMORY]


@pytest.mark.parametrize("program,seed,what", RUNS, indirect=["program"], scope="module")
def test_the_engine_is_right_and_clean(program, what, seed):
    ran = check(program, what, seed)
    assert (ran.returncode, ran.stdout) == (0, "passed\n"), ran.stdout + ran.stderr


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 10))
def test_the_engine_is_right_for_long(program, seed):
    for what in ("twin", "threads", "tiers"):
        ran = check(program, what, seed)
        assert (ran.returncode, ran.stdout) == (0, "passed\n"), ran.stdout + ran.stderr


def test_a_bloom_filter_keeps_its_rate(program):
    ran = check(program, "bloom", 1)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rates = [tuple(map(float, line.split())) for line in ran.stdout.splitlines()[:-1]]
    assert len(rates) == 3 and all(asked / 2 < measured < 1.3 * asked for asked, measured in rates)

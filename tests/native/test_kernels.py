"""Our kernels under sanitizers: the checker that judges a learner's kernel judges ours, too."""

import os
import subprocess

import pytest
from compiled import CXX, NATIVE, sanitized, units
from compiled import program as compiled

from ctrlab import _native
from ctrlab.ops import kernel_swap

SANITIZERS = ["address,undefined", "thread"]


# Under sanitizers the checker of all kernels takes a compiler a minute or two of a quiet core.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", params=SANITIZERS)
def program(request, tmp_path_factory):
    checks = tmp_path_factory.mktemp("native") / "checks.cc"
    checks.write_text(kernel_swap.checks_of(sorted(set(kernel_swap.kernels().values()))))
    sources = [checks, *sorted((NATIVE / "kernels").rglob("*.cc"))]
    return compiled("check_kernels", units(sources, CXX), sanitized(request.param))


def test_every_kernel_of_the_library_is_checked():
    table = _native.library().c
    assert all(table.ctrlab_kernels_restore(name.encode()) == 0 for name in kernel_swap.kernels())


@pytest.mark.parametrize("kernel", kernel_swap.kernels())
@pytest.mark.parametrize("seed", [1, 2])
def test_kernels_are_right_and_clean(program, kernel, seed):
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    ran = subprocess.run([program, kernel, str(seed)], capture_output=True, text=True, timeout=60, env=environment)
    if "unexpected memory mapping" in ran.stderr:
        pytest.skip("ThreadSanitizer of this compiler does not run under this system's address space layout")
    assert (ran.returncode, ran.stdout) == (0, f"passed {seed}\n"), ran.stdout + ran.stderr

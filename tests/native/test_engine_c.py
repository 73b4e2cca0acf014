"""The engine's C interface, from a C program: linked to the library that is installed, and to one under sanitizers."""

import os
import shutil
import subprocess

import pytest
from compiled import CXX, NATIVE, sanitized, units
from compiled import program as compiled

from ctrlab import _native

CHECK = NATIVE / "table" / "check"
C = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-D_POSIX_C_SOURCE=200809L"]
CHECKS = ["calls", "refusals", "storage", "memory", "threads", "threads_below"]

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", params=["", "address,undefined", "thread"], ids=["library", "address", "thread"])
def program(request):
    """Without a sanitizer it is linked to libctrlab_engine.so."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler `cc`")
    flags = sanitized(request.param) if request.param else ["-O1", "-g1", "-pthread"]
    in_c = [CHECK / f"{name}.c" for name in ("check_engine_c", "check_engine_c_threads")]
    in_cxx = [CHECK / f"{name}.cc" for name in ("check_engine_c_memory", "failing_new")]
    in_cxx += sorted([*NATIVE.glob("table/*.cc"), *NATIVE.glob("store/*.cc")]) if request.param else []
    parts = units(in_c, C, by=("cc",)) + units(in_cxx, CXX)
    library = [] if request.param else [_native.ENGINE]
    places = [f"-Wl,-rpath,{_native.ENGINE.parent}", "-Wl,--wrap=mmap,--wrap=munmap"]
    return compiled("check_engine_c", parts, flags, libraries=[*library, *places])


@pytest.mark.parametrize("what", CHECKS)
def test_the_interface_answers_and_refuses_as_its_header_says(program, what, tmp_path):
    ran = subprocess.run([program, what, tmp_path / "storage"], capture_output=True, text=True, timeout=300, env=os.environ)
    if "unexpected memory mapping" in ran.stderr:
        pytest.skip("ThreadSanitizer of this compiler does not run under this system's address space layout")
    assert (ran.returncode, ran.stdout) == (0, "passed\n"), ran.stdout + ran.stderr

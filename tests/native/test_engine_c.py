"""The engine's C interface, from a C program: linked to the library that is installed, and to one under sanitizers."""

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ctrlab import _native
from ctrlab.ops import kernel_swap

NATIVE = Path(__file__).parents[2] / "native"
CHECK = NATIVE / "table" / "check"
C = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-D_POSIX_C_SOURCE=200809L"]
CXX = ["-std=c++20", "-Wall", "-Wextra", "-Wno-psabi", "-Werror"]
CHECKS = ["calls", "refusals", "storage", "memory", "threads", "threads_below"]

pytestmark = pytest.mark.timeout(900)


def build(folder: Path, sanitizer: str) -> Path:
    """The program; without a sanitizer it is linked to libctrlab_engine.so."""
    cc = shutil.which("cc")
    if cc is None:
        pytest.skip("no C compiler `cc`")
    flags = ["-O1", "-g", *([f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"] if sanitizer else [])]

    def run(*command):
        made = subprocess.run([*command, *flags, "-pthread"], capture_output=True, text=True)
        if re.search(r"cannot find .*(asan|ubsan|tsan)", made.stderr):
            pytest.skip(f"no libraries of the sanitizers for {command[0]}")
        assert made.returncode == 0, made.stderr

    def compiled(source):
        target = folder / f"{source.name}.o"
        compiler = [cc, *C] if source.suffix == ".c" else [*kernel_swap.compiler(), *CXX]
        run(*compiler, "-I", NATIVE, "-I", CHECK, "-c", source, "-o", target)
        return target

    sources = [CHECK / f for f in ("check_engine_c.c", "check_engine_c_threads.c", "check_engine_c_memory.cc", "failing_new.cc")]
    sources += sorted([*NATIVE.glob("table/*.cc"), *NATIVE.glob("store/*.cc")]) if sanitizer else []
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compiled, sources))
    library = [] if sanitizer else [_native.ENGINE, f"-Wl,-rpath,{_native.ENGINE.parent}"]
    run(*kernel_swap.compiler(), *objects, *library, "-Wl,--wrap=mmap,--wrap=munmap", "-o", folder / "check_engine_c")
    return folder / "check_engine_c"


@pytest.fixture(scope="module", params=["", "address,undefined", "thread"], ids=["library", "address", "thread"])
def program(request, tmp_path_factory):
    return build(tmp_path_factory.mktemp("engine_c"), request.param)


@pytest.mark.parametrize("what", CHECKS)
def test_the_interface_answers_and_refuses_as_its_header_says(program, what, tmp_path):
    ran = subprocess.run([program, what, tmp_path / "storage"], capture_output=True, text=True, timeout=300, env=os.environ)
    if "unexpected memory mapping" in ran.stderr:
        pytest.skip("ThreadSanitizer of this compiler does not run under this system's address space layout")
    assert (ran.returncode, ran.stdout) == (0, "passed\n"), ran.stdout + ran.stderr


def test_the_header_is_one_of_c89(tmp_path):
    source = tmp_path / "c89.c"
    source.write_text('#include "table/engine_c.h"\nint main(void) { return !sizeof(ctrlab_table_delta); }\n')
    strict = ["-std=c89", "-Wall", "-Wextra", "-pedantic-errors", "-Werror", "-fsyntax-only"]
    made = subprocess.run(["cc", *strict, "-I", NATIVE, source], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr

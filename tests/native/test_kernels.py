"""Our kernels under sanitizers: the checker that judges a learner's kernel judges ours, too."""

import os
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"
COMPILER = os.environ.get("CXX", "g++")
KERNELS = ["indicator", "indicator_gradient", "indicator_weights_gradient"]
SANITIZERS = ["address,undefined", "thread"]


@pytest.fixture(scope="module", params=SANITIZERS)
def program(request, tmp_path_factory):
    target = tmp_path_factory.mktemp("native") / "check"
    flags = [
        "-std=c++20",
        "-O1",
        "-g",
        f"-fsanitize={request.param}",
        "-fno-sanitize-recover=all",
        "-Wall",
        "-Wextra",
        "-Wno-psabi",
    ]
    sources = [NATIVE / "check" / "check.cc", NATIVE / "kernels" / "indicator.cc"]
    command = [COMPILER, *flags, "-Werror", "-I", NATIVE / "kernels", *sources, "-o", target]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return target


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seed", [1, 2])
def test_kernels_are_right_and_clean(program, kernel, seed):
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    ran = subprocess.run([program, kernel, str(seed)], capture_output=True, text=True, timeout=60, env=environment)
    if "unexpected memory mapping" in ran.stderr:
        pytest.skip("ThreadSanitizer of this compiler does not run under this system's address space layout")
    assert (ran.returncode, ran.stdout) == (0, f"passed {seed}\n"), ran.stdout + ran.stderr

"""What kernels are made of: polynomials and small matrix products, on this machine's vectors and on plain ones."""

import subprocess
from pathlib import Path

import pytest

from ctrlab.ops import kernel_swap

NATIVE = Path(__file__).parents[2] / "native"
FLAGS = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Wno-psabi", "-Werror", "-fsanitize=address,undefined"]


@pytest.mark.parametrize("machine", [[], ["-march=native"]], ids=["portable", "native"])
def test_functions_and_products_are_right_to_the_last_bits(machine, tmp_path):
    source, program = NATIVE / "check" / "blocks.cc", tmp_path / "blocks"
    command = [*kernel_swap.compiler(), *FLAGS, *machine, "-fno-sanitize-recover=all", "-I", NATIVE, source]
    made = subprocess.run([*command, "-o", program], capture_output=True, text=True)
    if "asan" in made.stderr and "cannot find" in made.stderr:
        pytest.skip(f"no library of the sanitizers for {kernel_swap.compiler()[0]}")
    assert made.returncode == 0, made.stderr
    ran = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    worst = {line.split()[0]: float(line.split()[1]) for line in ran.stdout.splitlines()}
    assert set(worst) == {"exp", "sigmoid", "tanh", "softplus"} and max(worst.values()) > 0

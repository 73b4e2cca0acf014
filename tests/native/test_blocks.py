"""The building blocks of kernels: polynomials and small matrix products, on this machine's vectors and on plain ones."""

import subprocess

import pytest
from compiled import CXX, NATIVE, program, sanitized, units

FLAGS = [*CXX, *sanitized("address,undefined")]


@pytest.mark.parametrize("machine", [[], ["-march=native"]], ids=["portable", "native"])
def test_functions_and_products_are_right_to_the_last_bits(machine):
    made = program("check_blocks", units([NATIVE / "check" / "blocks.cc"]), [*FLAGS, *machine])
    ran = subprocess.run([made], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    worst = {line.split()[0]: float(line.split()[1]) for line in ran.stdout.splitlines()}
    assert set(worst) == {"exp", "sigmoid", "tanh", "softplus"} and max(worst.values()) > 0

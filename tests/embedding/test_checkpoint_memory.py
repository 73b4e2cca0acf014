"""A table of several times the memory is saved, restored, merged and cut in parts. See little_memory.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("little_memory.py")


def run(folder, what, times):
    one_arena = os.environ | {"MALLOC_ARENA_MAX": "1"}  # else each thread of TensorFlow's reserves 64 MB of addresses
    ran = subprocess.run([sys.executable, PROGRAM, folder, what, str(times)], capture_output=True, text=True, env=one_arena)
    assert ran.returncode == 0, ran.stderr[-3_000:]


@pytest.fixture(scope="module", params=[4, pytest.param(10, marks=pytest.mark.long)])
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    run(folder, "make", request.param)
    return folder, request.param


@pytest.mark.parametrize("what", ["save", "restore", "merge", "deltas", "reshard"])
def test_in_a_fraction_of_the_memory_that_its_rows_take(made, what):
    folder, times = made
    run(folder, what, times)

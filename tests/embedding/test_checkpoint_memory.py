"""A table of several times the memory is saved, restored, merged and cut in parts. See little_memory.py."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("little_memory.py")


def few_addresses_for_threads():
    """The limit counts addresses, of which each thread would reserve 8 MB for its stack, used or not."""
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))


def run(folder, what, times):
    one_arena = os.environ | {"MALLOC_ARENA_MAX": "1"}  # else each thread reserves 64 MB more
    command = [sys.executable, PROGRAM, folder, what, str(times)]
    ran = subprocess.run(command, capture_output=True, text=True, env=one_arena, preexec_fn=few_addresses_for_threads)
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

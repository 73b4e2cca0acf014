"""A training with embedding tables that is killed at any moment loses nothing that was on the disk."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

KILLING = Path(__file__).with_name("killing_tables.py")


def killed(kills, folder, seed):
    ran = subprocess.run([sys.executable, KILLING, folder, str(kills), str(seed)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert re.match(rf"survived {kills} kills", ran.stdout)
    print(ran.stdout)


def test_ten_kills_with_tables(tmp_path):
    killed(10, tmp_path, 1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_a_hundred_kills_with_tables(tmp_path, seed):
    killed(10, tmp_path, 100 + seed)

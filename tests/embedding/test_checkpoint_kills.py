"""A training with embedding tables that is killed at any moment loses nothing that was on the disk."""

from pathlib import Path

import pytest

KILLING = Path(__file__).with_name("killing_tables.py")


def test_ten_kills_with_tables(survives_ten_kills):
    survives_ten_kills(KILLING, 1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(30))
def test_three_hundred_kills_with_tables(survives_ten_kills, seed):
    survives_ten_kills(KILLING, 100 + seed)

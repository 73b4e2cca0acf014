"""Silence ends with its block, whatever happens in it."""

import os

import pytest

from ctrlab.profiling.quiet import quiet


def test_only_what_is_said_inside_is_lost(capfd):
    os.write(2, b"before\n")
    with pytest.raises(ValueError), quiet():
        os.write(2, b"inside\n")
        raise ValueError
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "before\nafter\n"

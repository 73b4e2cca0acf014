"""Slow storage gives the same lines, later."""

import time

import pytest
from ctrlab.lessons.topics.feeding import throttle
from ctrlab.lessons.topics.feeding.throttle import BLOCK_BYTES, slow_blocks, slow_lines

from ctrlab.errors import CtrlabError


@pytest.mark.parametrize("text", [b"", b"a\n", b"a\n\nb", b"x" * 3 * BLOCK_BYTES + b"\ny\n", b"12345\n" * 10_000], ids=len)
def test_slow_lines_are_the_files_lines(tmp_path, text):
    path = tmp_path / "rows.csv"
    path.write_bytes(text)
    assert [line.numpy() for line in slow_lines(str(path), 1e9)] == text.splitlines()


def test_no_byte_comes_before_its_time(tmp_path, monkeypatch):
    path, clock = tmp_path / "rows.csv", [7.0]
    path.write_bytes(b"x" * 4 * BLOCK_BYTES)
    monkeypatch.setattr(throttle, "now", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.append(clock.pop() + seconds))
    came = []
    for block in slow_blocks(path, 4 * BLOCK_BYTES):
        came.append((clock[0], len(block)))
        clock[0] += 0.4 if len(came) == 2 else 0.1  # a reader that lingers has its next bytes at once
    assert [at for at, _ in came] == pytest.approx([7.25, 7.5, 7.9, 8.0]) and sum(n for _, n in came) == 4 * BLOCK_BYTES


def test_a_rate_must_be_above_zero():
    with pytest.raises(CtrlabError, match="more than 0 bytes"):
        slow_lines("rows.csv", 0)

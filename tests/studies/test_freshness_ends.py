"""The measurement of freshness ends when it should, and leaves nothing behind."""

import math
import os
import signal

import pytest

from ctrlab.errors import CtrlabError
from studies.freshness import bench as freshness
from studies.freshness.bench import LoopTimes, measure


def test_sigterm_leaves_no_command_and_no_folder(monkeypatch):
    started = []

    class Noted(freshness._Running):
        def __init__(self, *words):
            super().__init__(*words)
            started.append(self)

    monkeypatch.setattr(freshness, "_Running", Noted)
    monkeypatch.setattr(freshness, "_wait", lambda ready, running: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.signal(signal.SIGTERM, mine := lambda *_: None)
    try:
        with pytest.raises(SystemExit) as ended:
            measure("din", LoopTimes(), "tiny")
        assert ended.value.code == 128 + signal.SIGTERM and signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)
    [trainer] = started
    assert trainer.process.poll() is not None and not trainer.log.parent.exists()


@pytest.mark.parametrize("rate", [math.inf, math.nan, 0.0, -1.0])
def test_a_rate_is_a_number(rate):
    with pytest.raises(CtrlabError, match="rows per second"):
        LoopTimes(rows_per_second=rate)


def test_the_client_ends_in_time_however_much_it_was_to_ask_for(monkeypatch):
    class Labels:
        def numpy(self):
            return freshness.np.zeros((64, 1))

    now, asked = iter(range(10**6)), []
    monkeypatch.setattr(freshness.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(freshness.time, "sleep", lambda seconds: None)
    client = object.__new__(freshness._Client)
    client._setting, client._batches, client.problems = LoopTimes(rows_per_second=1e12, seconds=60), [({}, Labels())] * 100, []
    client._ask = lambda features: asked.append(1) or "id"
    client.run(lambda: None)
    assert len(asked) < 60

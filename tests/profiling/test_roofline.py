"""Bounds follow from work and ceilings by hand; ceilings are sane and kept."""

import ctypes
import json

import numpy as np
import pytest

from ctrlab._native import library
from ctrlab.profiling import roofline
from ctrlab.profiling.machine import Machine, machine
from ctrlab.profiling.work import Ceilings, Work, bound, parts

HAND = Ceilings(sgemm=100.0, bf16=200.0, stream=10.0, stream_one_thread=5.0, random_rows=2.0, sigmoids=4.0, device="by hand")


def test_work_adds_up():
    assert Work(1, 2, 3, 64, 5) + Work(10, 20, 1, 32, 6) == Work(11, 22, 4, 56, 11)
    assert sum([Work(flops=1), Work(random_rows=2, row_bytes=8)], Work()) == Work(flops=1, random_rows=2, row_bytes=8)
    assert 3 * Work(1, 2, 3, 4, 5) == Work(3, 6, 9, 4, 15)
    assert Work(flops=12, bytes=4, random_rows=2, row_bytes=1).intensity == 2
    assert Work(flops=1).intensity == float("inf")
    assert Work.from_json(json.loads(json.dumps(Work(1, 2, 3, 4).to_json()))) == Work(1, 2, 3, 4)


def test_bound_is_the_longer_of_arithmetic_and_memory():
    assert bound(Work(flops=500), HAND) == 5.0
    assert bound(Work(flops=500, bytes=20), HAND) == 5.0, "20 bytes take 2 s, behind the arithmetic"
    assert bound(Work(flops=500, bytes=80), HAND) == 8.0
    assert bound(Work(bytes=20, random_rows=6, row_bytes=1), HAND) == 2.0 + 3.0, "streams and random rows share the bus"
    assert bound(Work(flops=500, bytes=80, sigmoids=16), HAND) == 9.0, "sigmoids add to the products"
    assert bound(Work(), HAND) == 0


def test_long_rows_cost_their_bytes():
    assert parts(Work(random_rows=4, row_bytes=1), HAND)["random"] == 4 / 2.0
    assert parts(Work(random_rows=4, row_bytes=50), HAND)["random"] == 4 * 50 / 10.0


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Sizes that take milliseconds, and a cache of its own; what comes out is a rate, though no ceiling."""
    monkeypatch.setenv("CTRLAB_CACHE", str(tmp_path))
    for name, value in {
        "MATMUL": 128,
        "STREAM_BYTES": 2**22,
        "TABLE_BYTES": 2**22,
        "GATHERED_ROWS": 2**12,
        "SIGMOID_TIMES": 2,
    }.items():
        monkeypatch.setattr(roofline, name, value)
    return tmp_path


def test_ceilings_are_sane_and_kept(small, monkeypatch):
    found = roofline.ceilings()
    assert found.sgemm > 1e8 and found.bf16 > 1e6 and found.random_rows > 1e5 and found.sigmoids > 1e6
    assert found.stream >= found.stream_one_thread > 1e8
    assert found.device == machine().line
    lower = Ceilings(**{name: value / 2 for name, value in found.to_json().items() if name != "device"}, device=found.device)
    monkeypatch.setattr(roofline, "_measure", lambda here: lower)
    assert roofline.ceilings() == found, "read from the cache"
    assert roofline.ceilings(measure_again=True) == lower, "what this run saw"
    assert roofline.ceilings() == found, "the cache keeps the most that was seen"
    assert [p.suffix for p in small.iterdir()] == [".json"], "nothing half-written is left"


@pytest.mark.parametrize(("name", "function"), [("sigmoids", lambda x: 1 / (1 + np.exp(-x))), ("tanhs", np.tanh)])
def test_what_is_timed_is_a_sigmoid(name, function):
    x = np.random.default_rng(0).normal(0, 3, 64).astype(np.float32)
    expected = function(function(x.astype(np.float64)))
    library().c[f"ctrlab_{name}"](ctypes.c_void_p(x.ctypes.data), ctypes.c_int64(64), ctypes.c_int64(2))
    np.testing.assert_allclose(x, expected, rtol=1e-6)


def test_another_machine_or_a_damaged_file_is_measured_again(small, monkeypatch):
    monkeypatch.setattr(roofline, "_measure", lambda here: HAND)
    roofline.ceilings()
    (path,) = small.iterdir()
    path.write_text('{"sgemm": 1')
    assert roofline.ceilings() == HAND
    monkeypatch.setattr(roofline, "machine", lambda: Machine("other CPU, 64 cores", 64, {"tensorflow": "2.21.0"}))
    roofline.ceilings()
    assert len(list(small.iterdir())) == 2


def test_shares_cover_everything_once():
    for threads in (1, 2, 3, 7):
        assert [i for s in roofline._shares(20, threads) for i in range(20)[s]] == list(range(20))


def test_device_line_names_cpu_cores_threads_and_tensorflow():
    line = machine().line
    assert "core" in line and "thread" in line and "TensorFlow 2." in line
    assert Machine("CPU, 1 core", 1, {}).line == "CPU, 1 core · 1 thread"

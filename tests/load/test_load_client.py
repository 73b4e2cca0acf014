"""The open loop: latencies from the time that a request was due, and every way in which one can fail."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from fake_servers import OK, answering, request, serving
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ctrlab.errors import CtrlabError
from ctrlab.load import arrivals
from ctrlab.load.answers import NotHttp, Reader
from ctrlab.load.client import Target, post, send

POST = [post("/", b"{}")]


def at(port):
    return [Target("127.0.0.1", port)]


def test_gaps_are_exponential_and_the_same_for_a_seed():
    due = arrivals.poisson(200, 20, seed=1)
    assert stats.kstest(np.diff(due, prepend=0), "expon", args=(0, 1 / 200)).pvalue > 0.01
    assert abs(len(due) - 4000) < 4 * np.sqrt(4000) and np.all(np.diff(due) > 0) and due[-1] < 20
    assert np.array_equal(due, arrivals.poisson(200, 20, seed=1)) and len(arrivals.poisson(200, 20, most=7)) == 7
    assert stats.kstest(np.diff(np.linspace(0, 20, 4000)), "expon", args=(0, 1 / 200)).pvalue < 1e-6  # the test can fail


@pytest.mark.parametrize("wrong", [{"rate": 0}, {"rate": float("nan")}, {"seconds": -1}, {"most": 0}])
def test_a_load_of_nothing_is_refused(wrong):
    with pytest.raises(CtrlabError, match="is a number above 0; received"):
        arrivals.poisson(**{"rate": 1, "seconds": 1} | wrong)


def test_each_request_is_answered_once():
    with serving(answering()) as port:
        found = send(at(port), POST, arrivals.poisson(500, 1), timeout=5)
    assert found.requests == len(found.latencies) == len(arrivals.poisson(500, 1)) and found.failures == {}
    assert 0 < found.percentile(50) < 0.5 and found.cpu > 0 and found.lag < 0.5, "seconds"


def test_a_stall_shows_in_every_request_that_was_due_meanwhile():
    """The server stands still for a second from its request 25 on, so until 1.48 s at least. All others that are due at a time
    `t` before that take 1.48 - t at least.
    """
    count = []

    async def handle(reader, writer):
        while True:
            await request(reader)
            count.append(1)
            if len(count) == 25:
                time.sleep(1)  # the whole server
            writer.write(OK)

    due = np.arange(0, 2, 0.02)
    with serving(handle) as port:
        found = send(at(port), POST, due, timeout=30)
    assert found.failures == {}
    took, before = np.array(found.latencies), due < 1.4
    assert (took >= 1.45 - due)[before].sum() >= before.sum() - 24
    assert (took > 0.1).mean() > 0.35, "a closed loop on one connection would have one slow answer of a hundred"


def test_refusals_are_counted_by_their_status_and_told():
    refusal = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 8\r\n\r\ntoo many"
    with serving(answering(refusal)) as port:
        found = send(at(port), POST, np.arange(20) / 100)
    assert found.failures == {"status 429": 20} and found.why == "status 429: too many" and found.percentile(50) == np.inf


def test_what_is_not_answered_in_time_is_counted_and_not_dropped():
    with serving(answering(seconds=30)) as port:
        begun = time.monotonic()
        found = send(at(port), POST, np.arange(10) / 100, timeout=0.3)
    assert found.failures == {"timeout": 10} and time.monotonic() - begun < 3 and "within 0.3 s" in found.why


def test_requests_that_wait_for_a_connection_take_longer_and_are_late_in_time():
    with serving(answering(seconds=0.1)) as port:
        found = send(at(port), POST, np.zeros(10), most_connections=1, timeout=0.55)
    assert found.failures == {"timeout": 10 - len(found.latencies)} and 2 <= len(found.latencies) <= 5
    assert np.all(np.diff(found.latencies) > 0.09)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n1;a=b\r\n}\r\n0\r\nTrailer: x\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
    ],
)
def test_answers_of_each_form(answer):
    async def handle(reader, writer):
        while True:
            await request(reader)
            for byte in answer:  # in pieces
                writer.write(bytes([byte]))
                await writer.drain()
            if b"close" in answer or b"1.0" in answer:
                return

    with serving(handle) as port:
        found = send(at(port), POST, np.arange(10) / 100, timeout=5)
    assert found.failures == {} and len(found.latencies) == 10


@pytest.mark.parametrize("half", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{", b"SSH-2.0-x\r\n\r\n", OK + b"more"])
def test_connections_that_break_are_counted(half):
    async def handle(reader, writer):
        await request(reader)
        writer.write(half)

    with serving(handle) as port:
        found = send(at(port), POST, np.arange(10) / 100, timeout=5)
    assert found.failures == {"connection": 10} and found.why.startswith("connection: ")


def test_a_server_that_dies_ends_nothing():
    with serving(answering()) as port, serving(answering()) as other:
        pass
    found = send(at(port), POST, np.arange(10) / 100, timeout=5)
    assert found.failures == {"connection": 10} and "can't be reached" in found.why
    count = []

    async def dies(reader, writer):
        while True:
            await request(reader)
            count.append(1)
            if len(count) > 10:
                writer.transport.abort()
                return
            writer.write(OK)

    with serving(dies) as port:
        found = send([*at(port)], POST, np.arange(30) / 100, timeout=5)
    assert len(found.latencies) == 10 and found.failures == {"connection": 20}
    assert other


def test_several_addresses_share_the_load():
    counts = {}

    def counting(name):
        async def handle(reader, writer):
            while True:
                await request(reader)
                counts[name] = counts.get(name, 0) + 1
                await asyncio.sleep(0.02)
                writer.write(OK)

        return handle

    with serving(counting("a")) as a, serving(counting("b")) as b:
        found = send(at(a) + at(b), POST, np.arange(100) / 100)
    assert found.failures == {} and min(counts.values()) > 30


@given(st.lists(st.sampled_from([OK, b"HTTP/1.1 204 x\r\n\r\n"]), max_size=1), st.binary(max_size=60), st.data())
@settings(max_examples=200, deadline=None)
def test_no_bytes_are_more_than_an_answer_or_a_refusal(first, rest, data):
    reader, sent = Reader(), b"".join(first) + rest
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=4)))
    try:
        for begin, end in zip([0, *cuts], [*cuts, len(sent)]):
            answer = reader.feed(sent[begin:end])
            assert answer is None or answer.status in (200, 204)
        reader.end()
    except NotHttp as refused:
        assert str(refused).endswith(".")


def test_a_header_that_would_be_two_is_refused():
    with pytest.raises(CtrlabError, match="printable ASCII; Authorization is not"):
        post("/", b"", token="a\r\nX: y")


@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed (Debian: apt-get install wrk)")
def test_wrk_measures_the_same_latency():
    """Where nothing waits, an open loop and wrk's closed one agree: on a server that takes much longer than any of the two."""
    taken = 0.05
    with serving(answering(seconds=taken)) as port:
        command = ["wrk", "-t1", "-c1", "-d2", "--latency", f"http://127.0.0.1:{port}/"]
        script = "wrk.method, wrk.body = 'POST', '{}'"
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
            file.write(script)
            file.flush()
            said = subprocess.run([*command, "-s", file.name], capture_output=True, text=True, check=True).stdout
        ours = send(at(port), POST, np.arange(20) * 0.1)
    assert "Non-2xx" not in said and ours.failures == {}
    number, unit = re.search(r"50%\s+([0-9.]+)(us|ms|s)", said).groups()
    theirs = float(number) * {"us": 1e-6, "ms": 1e-3, "s": 1}[unit]
    assert theirs > taken < ours.percentile(50) and ours.percentile(50) == pytest.approx(theirs, rel=0.1)


def test_a_notebook_can_send_too():
    """Where a loop runs already."""
    with serving(answering()) as port:

        async def cell():
            return send(at(port), POST, np.zeros(3))

        assert asyncio.run(cell()).failures == {}


@pytest.mark.parametrize("most", [256, 2], ids=["each request has a connection", "others wait for one"])
def test_ctrl_c_ends_a_load_at_once(most):
    """The main thread waits for the one that sends: this one ends too, and with it its connections."""
    came, here = [], set()

    async def handle(reader, writer):
        here.add(writer)
        try:
            while True:
                await request(reader)
                came.append(time.monotonic())
                await asyncio.sleep(0.2)
        finally:
            here.remove(writer)

    with serving(handle) as port:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            send(at(port), POST, np.arange(0, 60, 0.05), most_connections=most)
        while here and time.monotonic() - begun < 30:
            time.sleep(0.01)
        assert came and not here and time.monotonic() - begun < 30, "of 60 s"
        sent = len(came)
        time.sleep(0.5)
        assert len(came) == sent


def test_what_failed_late_does_not_slow_the_answers():
    """Ten answers in 0.1 s, and one request that times out after 2 s."""
    count = []

    async def handle(reader, writer):
        while True:
            await request(reader)
            count.append(1)
            if len(count) != 5:
                writer.write(OK)

    with serving(handle) as port:
        found = send(at(port), POST, np.arange(11) / 100, rate=100, seconds=0.11, timeout=2)
    assert found.failures == {"timeout": 1} and found.took < 1.5 and found.achieved > 10 / 1.5


def test_a_pace_is_kept_however_long_each_takes(monkeypatch):
    """Who is slow once is not slow from then on: what was due meanwhile comes at once."""
    clock = SimpleNamespace(now=7.0)
    clock.sleep = lambda seconds: setattr(clock, "now", clock.now + seconds)
    monkeypatch.setattr(arrivals, "now", lambda: clock.now)
    monkeypatch.setattr(arrivals, "time", clock)
    came = []
    for number, due in arrivals.paced([0.0, 0.05, 0.1, 0.3]):
        came.append((number, due - 7, clock.now - 7))
        clock.sleep(0.15 if number == 0 else 0)
    expected = [(0, 0.0, 0.0), (1, 0.05, 0.15), (2, 0.1, 0.15), (3, 0.3, 0.3)]
    np.testing.assert_allclose(came, expected)

"""Who has no token takes neither memory nor connections from those who have one, and does not hold up the server's end."""

import asyncio
import contextlib
import gzip
import json
import signal
import socket
import time
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from raw_http2 import Client
from serve_command import TOKEN, WITH
from wire_requests import by_rows

from ctrlab.server import application, fronts
from ctrlab.server.application import STOPS, Application, Wrong
from ctrlab.server.rpc import Rpc

PREDICT = "/tensorflow.serving.PredictionService/Predict"
HEALTH = "/grpc.health.v1.Health/Check"
KNOWN = ("authorization", f"Bearer {TOKEN}")
STRANGERS = ((), (("authorization", "Bearer another"),))
ENDS = {PREDICT: b"\x0216", HEALTH: b"\x010", "/no.Service/Method": b"\x0212"}
"""The code that a stranger's call ends with, as the last headers have it."""


def memory_of(process):
    """Bytes of memory that a process has."""
    with open(f"/proc/{process.pid}/statm") as file:
        return int(file.read().split()[1]) * 4_096


@pytest.fixture
def clients():
    """`clients(port)` -> a client that is closed at the end."""
    with contextlib.ExitStack() as stack:
        yield lambda port: stack.enter_context(contextlib.closing(Client(port)))


@pytest.mark.parametrize("path", ENDS)
@pytest.mark.parametrize("packed", [False, True])
def test_of_a_stranger_s_message_nothing_is_read(server, clients, path, packed):
    message = gzip.compress(bytes(32 << 20), 1) if packed else bytes(60_000)
    size = None if packed else 60 << 20
    assert len(message) > 60_000 - 1
    before, called = memory_of(server.process), []
    for _ in range(16):
        client = clients(server.grpc_port)
        called.append((client, client.begin(path, message=message, packed=packed, size=size)))
    for client, stream in called:
        got = client.end_of(stream)
        assert b"grpc-status" + ENDS[path] in got, got
    assert memory_of(server.process) - before < 32 << 20, "their messages would be 512 MiB, or 960 KB each way"


def test_a_message_that_unpacks_to_too_much_is_not_unpacked(server, clients):
    message, before = gzip.compress(bytes(200 << 20), 1), memory_of(server.process)
    client = clients(server.grpc_port)
    end = client.end_of(client.begin(PREDICT, KNOWN, message=message, packed=True))
    assert b"grpc-status\x018" in end or b"at most 67108864 bytes" in end, "gRPC's own refusal, or ours"
    assert memory_of(server.process) - before < 150 << 20


def calls_to(ask, token="a-token", **limits):
    """`ask(port)`, in a thread, of a gRPC server without models; returns what was refused, (why, sentence)."""
    refused = []

    async def serve():
        rpc = Rpc(SimpleNamespace(refuse=lambda _, why, sentence: refused.append((why, sentence))), token)
        for name, seconds in limits.items():
            setattr(rpc.messages, name, seconds)
        calls = fronts.grpc_server(rpc)
        port = calls.add_insecure_port("127.0.0.1:0")
        await calls.start()
        try:
            await asyncio.to_thread(ask, port)
        finally:
            await calls.stop(None)

    asyncio.run(serve())
    return refused


@pytest.mark.parametrize("token", ["a-token", ""])
def test_a_message_that_does_not_come_in_time_ends_its_call(clients, token):
    def ask(port):
        half = [clients(port) for _ in range(3)]
        streams = [client.begin(PREDICT, KNOWN, message=b"x", size=100) for client in half]
        ends = [client.end_of(stream) for client, stream in zip(half, streams)]
        assert all(b"grpc-status\x014" in end for end in ends)

    sentence = "A call's message comes within 0.2 s; this one did not."
    assert calls_to(ask, token, seconds=0.2) == [("deadline_exceeded", sentence)] * 3


def test_connections_of_grpc_are_at_most_a_quarter_of_the_open_files(clients, monkeypatch):
    monkeypatch.setattr(fronts, "allow_files", lambda: 12)

    def ask(port):
        known = [clients(port) for _ in range(3)]
        for client in known:
            client.end_of(client.begin(HEALTH))
        with pytest.raises((EOFError, OSError)):
            client = clients(port)
            client.end_of(client.begin(HEALTH))
        for client in known:
            client.end_of(client.begin(HEALTH))

    calls_to(ask)


@pytest.mark.parametrize("hurried", [False, True])
def test_a_body_on_its_way_has_seconds_when_the_server_stops(monkeypatch, hurried):
    monkeypatch.setattr(application, "LAST_SECONDS", 0.05)

    async def read():
        app = Application("", lambda *_: None, body_seconds=60 if hurried else 0.05)
        body = asyncio.create_task(app.body({}, asyncio.Event().wait))
        await asyncio.sleep(0)
        if hurried:
            app.bodies.hurry()
        await body

    with pytest.raises(Wrong) as refused:
        asyncio.run(asyncio.wait_for(read(), 20))
    status, sentence = (503, STOPS) if hurried else (408, "A request's body comes within 0.05 s; this one did not.")
    assert (refused.value.status, str(refused.value)) == (status, sentence)


def test_who_does_not_read_an_answer_is_not_inside():
    async def answer():
        app, waits = Application("", lambda *_: None), asyncio.Event()

        async def send(_):
            waits.set()
            await asyncio.Event().wait()

        scope = {"type": "http", "path": "/", "method": "GET", "headers": []}
        unread = asyncio.create_task(app(scope, None, send))
        await asyncio.sleep(0)
        await waits.wait()
        assert not app.inside
        unread.cancel()

    asyncio.run(asyncio.wait_for(answer(), 20))


def test_strangers_do_not_hold_up_the_end(begin, published, clients, tmp_path):
    server, body = begin("--log", tmp_path / "log", "--log-every", "1h"), by_rows(published[1])
    rows = 20 * len(json.loads(body)["instances"])
    for _ in range(20):
        assert server.ask("POST", "/v1/models/ctr:predict", body)[0] == 200
    for headers in STRANGERS:
        for path in (PREDICT, HEALTH, "/no.Service/Method"):
            clients(server.grpc_port).begin(path, *headers, message=b"x", size=1 << 20)
    clients(server.grpc_port)
    with socket.create_connection(("127.0.0.1", server.port)) as idle:
        idle.sendall(b"POST /v1/models/ctr:predict HTTP/1.1\r\nContent-Length: 100\r\n")
        begun = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        said = server.process.stdout.read()
        assert server.process.wait(60) == 0 and time.monotonic() - begun < 15, "it would wait for them for half a minute"
    assert "every request was answered" in said
    files = list((tmp_path / "log" / "ctr").glob("*.parquet"))
    assert sum(pq.read_metadata(file).num_rows for file in files) == rows


def test_answers_that_are_not_in_the_log_are_told_by_the_exit_code(begin, published, capfd, tmp_path):
    server = begin("--log", tmp_path / "log", "--log-every", "1h")
    (tmp_path / "log" / "ctr").write_text("a file in place of the folder")
    for _ in range(3):
        assert server.ask("POST", "/v1/models/ctr:predict", by_rows(published[1]))[0] == 200
    code, said = server.stop()
    told = capfd.readouterr().err
    assert code == 1 and "Stopped" not in said and "Traceback" not in told
    assert "3 of them are not in" in " ".join(told.split())


@pytest.mark.long
def test_a_known_caller_s_half_message_and_a_deaf_client_lose_no_rows(begin, published, clients, tmp_path):
    server = begin("--log", tmp_path / "log", "--log-every", "1h")
    assert server.ask("POST", "/v1/models/ctr:predict", by_rows(published[1]))[0] == 200
    client = clients(server.grpc_port)
    stream = client.begin(PREDICT, KNOWN, message=b"x", size=1 << 20)
    with socket.socket() as deaf, socket.create_connection(("127.0.0.1", server.port)) as half:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.connect(("127.0.0.1", server.port))
        deaf.settimeout(1)
        with contextlib.suppress(OSError):
            deaf.sendall(b"GET /dashboard HTTP/1.1\r\nHost: a\r\n\r\n" * 100_000)
        given = f"Authorization: {WITH['Authorization']}"
        half.sendall(f"POST /v1/models/ctr:predict HTTP/1.1\r\nHost: a\r\n{given}\r\nContent-Length: 100\r\n\r\n12".encode())
        begun = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert b"grpc-status\x0214" in client.end_of(stream)
        assert half.recv(1_000).startswith(b"HTTP/1.1 503 ")
        while not list((tmp_path / "log").glob("ctr/*.parquet")):
            assert server.process.poll() is None and time.monotonic() - begun < 15
            time.sleep(0.05)
        assert server.process.poll() is None, "it still waits for the deaf client"
        server.process.wait(30)
        assert time.monotonic() - begun < 25

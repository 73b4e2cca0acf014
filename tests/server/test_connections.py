"""Slow clients end; those that are there beside them, and 1,000 that ask nothing, disturb nobody."""

import asyncio
import contextlib
import functools
import http.client
import json
import socket
import threading
import time

import pytest
import uvicorn

from ctrlab.server import listening
from ctrlab.server.application import Answer, Application
from ctrlab.server.connections import Connection


async def says_hello(scope, receive, send):
    """An application that refuses what is sent to /no at once. What it says to /long is more than a network holds."""
    while scope["path"] != "/no" and (await receive()).get("more_body"):
        pass
    said = b"hello" * (1 << 23 if scope["path"] == "/long" else 1)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(said)).encode())]})
    await send({"type": "http.response.body", "body": said})


@pytest.fixture
def refused():
    """(status, why) of what the connections refused themselves."""
    return []


@pytest.fixture
def server(monkeypatch, refused):
    """A server that allows half a second for a head, for an answer, and for a refused client to end. It trusts who says so."""
    monkeypatch.setattr(Connection, "head_seconds", 0.5)
    monkeypatch.setattr(Connection, "linger_seconds", 0.5, raising=False)
    monkeypatch.setattr(Connection, "unread_seconds", 0.5, raising=False)
    options = {"refuse": lambda _, why, sentence: refused.append((why, sentence))}
    made = functools.partial(Connection, **options, trusts=lambda scope: (b"x-trusted", b"yes") in scope["headers"])
    options = {"lifespan": "off", "timeout_keep_alive": 2, "limit_concurrency": 1001, "timeout_graceful_shutdown": 5}
    server = uvicorn.Server(uvicorn.Config(says_hello, port=0, http=made, log_config=None, **options))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server
    server.should_exit = True
    thread.join(30)
    assert not thread.is_alive()


@pytest.fixture
def port(server):
    return server.servers[0].sockets[0].getsockname()[1]


def says(connection: socket.socket) -> bytes:
    """What the server says until it closes the connection."""
    said = b""
    while part := connection.recv(1000):
        said += part
    return said


def hello(connection: http.client.HTTPConnection) -> None:
    connection.request("POST", "/", b"x" * 100)
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"hello")


@pytest.mark.parametrize("begins", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: "])
def test_a_head_that_does_not_come_ends_its_connection_alone(port, begins):
    good, begun = http.client.HTTPConnection("127.0.0.1", port, timeout=20), time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
        slow.sendall(begins)
        hello(good)
        said = says(slow)
        assert said.startswith(b"HTTP/1.1 408 ") and 0.3 < time.monotonic() - begun < 10
        assert "head comes within 0.5 s" in json.loads(said.partition(b"\r\n\r\n")[2])["error"]
    hello(good)
    good.close()


def test_a_byte_now_and_then_is_no_way_to_stay(port):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\n")
        begun = time.monotonic()
        with pytest.raises(OSError):  # closed: the next write, or the one after it, fails
            while time.monotonic() - begun < 10:
                slow.sendall(b"X: y\r\n")
                time.sleep(0.05)
        assert time.monotonic() - begun > 0.3


def test_a_second_request_has_the_same_time(port):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        while not (said := slow.recv(1000)).endswith(b"hello"):
            assert said
        time.sleep(0.8)  # nothing is asked: the clock doesn't run
        begun = time.monotonic()
        slow.sendall(b"GET / HTTP/1.1\r\n")
        assert says(slow).startswith(b"HTTP/1.1 408 ") and time.monotonic() - begun > 0.3


def test_a_whole_head_stops_the_clock(port):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
        slow.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\n12")
        time.sleep(0.8)
        slow.sendall(b"34")
        assert says(slow).endswith(b"hello")


def test_a_thousand_connections(port, monkeypatch):
    monkeypatch.setattr(Connection, "head_seconds", 60.0)

    async def asks(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        opened.append(number)
        while len(opened) < 1000:
            await asyncio.sleep(0.01)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        said = await reader.read()
        assert said.startswith(b"HTTP/1.1 200 ") and said.endswith(b"hello")
        writer.close()

    async def all_of_them() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(1000):
                group.create_task(asks(number))

    opened = []
    asyncio.run(all_of_them())


def test_who_is_refused_before_the_body_is_whole_can_not_stay(port):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
        slow.sendall(b"POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nx")
        said, begun = b"", time.monotonic()
        while not said.endswith(b"hello"):
            said += slow.recv(1000)
        assert b"connection: close" in said.lower()
        with pytest.raises(OSError):  # closed: the next write, or the one after it, fails
            while time.monotonic() - begun < 10:
                slow.sendall(b"x")
                time.sleep(0.05)
        assert time.monotonic() - begun < 10


def test_who_is_refused_while_sending_much_hears_why(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST", "/no", b"x" * (20 << 20))
    answer = connection.getresponse()
    assert (answer.status, answer.read(), answer.getheader("connection")) == (200, b"hello", "close")


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01garbage\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 100_000,
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_http_is_refused_in_json_and_counted(port, refused, caplog, sent):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as odd:
        odd.sendall(sent)
        head, _, body = says(odd).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ") and b"application/json" in head and "is HTTP/1.1" in json.loads(body)["error"]
    assert [why for why, _ in refused] == ["bad_request"]
    assert not [record for record in caplog.records if record.name == "asyncio" or record.exc_info]


def test_a_bad_chunk_after_a_refusal_leaves_no_trace(port, caplog):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as odd:
        odd.sendall(b"POST /no HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        said = odd.recv(1000)
        odd.sendall(b"zz\r\n")
        assert said + says(odd) and b" 400 " not in said
    assert not [record for record in caplog.records if record.name == "asyncio" or record.exc_info]


@pytest.mark.parametrize(("path", "times"), [("/long", 1), ("/", 100_000)])
def test_who_does_not_read_the_answer_can_not_stay(server, port, path, times):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as deaf:
        with contextlib.suppress(OSError):  # dropped while it asks
            deaf.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode() * times)
        hello(http.client.HTTPConnection("127.0.0.1", port, timeout=20))
        begun = time.monotonic()
        while any(each.client == deaf.getsockname() for each in list(server.server_state.connections)):
            assert time.monotonic() - begun < 10
            time.sleep(0.05)
    hello(http.client.HTTPConnection("127.0.0.1", port, timeout=20))


def test_who_reads_slowly_gets_the_whole_answer(port):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
        slow.sendall(b"GET /long HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        begun, size = time.monotonic(), 0
        while part := slow.recv(1 << 20):
            size += len(part)
            time.sleep(0.02)
        assert size > 5 << 23 and time.monotonic() - begun > 0.6


def test_a_length_that_is_stated_twice_ends_the_connection(port):
    twice = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as odd:
        odd.sendall(twice + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        said = says(odd)
    assert said.count(b"HTTP/1.1 ") == 1 and b"connection: close" in said.lower() and said.endswith(b"hello")


@pytest.mark.parametrize("kind", ["h2c", "websocket"])
def test_an_upgrade_is_passed_over(port, caplog, kind):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/", headers={"Connection": "Upgrade", "Upgrade": kind})
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"hello")
    assert not caplog.records


def test_one_connection_too_many_is_told_so_in_json(port, refused, monkeypatch):
    monkeypatch.setattr(Connection, "head_seconds", 60.0)
    idle = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(1001)]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("content-type")) == (503, "application/json")
    assert "1001 connections" in json.loads(answer.read())["error"] and refused[0][0] == "service_unavailable"
    connection.request("GET", "/", headers={"X-Trusted": "yes"})
    answer = connection.getresponse()
    assert (answer.status, answer.read(), answer.getheader("connection")) == (200, b"hello", "close")
    for each in idle:
        each.close()


def test_beyond_the_limit_health_and_callers_with_the_token_are_answered(monkeypatch):
    monkeypatch.setattr(listening, "MOST_CONNECTIONS", 3)

    async def ask(path: str, authorization: str = "") -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.port)
        given = f"Authorization: {authorization}\r\n" if authorization else ""
        writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\n{given}\r\n".encode())
        said = await reader.read()  # it is closed
        writer.close()
        return said.split(b" ")[1]

    async def crowd(token: str) -> list[bytes]:
        nonlocal http
        http = await listening.Http.on(Application(token, lambda *_: None), "127.0.0.1", 0)
        idle = [await asyncio.open_connection("127.0.0.1", http.port) for _ in range(3)]
        asked = [("/v2/health/live",), ("/v2/health/ready",), ("/other",), ("/other", "Bearer no"), ("/other", "bearer a-token")]
        found = [await ask(*each) for each in asked]
        for _, writer in idle:
            writer.close()
        await http.end()
        return found

    http = None
    assert asyncio.run(crowd("a-token")) == [b"200", b"200", b"503", b"503", b"404"]
    assert asyncio.run(crowd("")) == [b"200", b"200", b"503", b"503", b"503"]


def test_connections_are_at_most_half_of_the_open_files(monkeypatch):
    monkeypatch.setattr(listening, "allow_files", lambda: 1024)

    async def limit() -> int:
        http = await listening.Http.on(Application("", lambda *_: None), "127.0.0.1", 0)
        await http.end()
        return http.config.limit_concurrency

    assert asyncio.run(limit()) == 512


def test_who_never_asks_makes_room_for_others(monkeypatch):
    monkeypatch.setattr(listening, "MOST_CONNECTIONS", 8)
    health = b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n"

    async def crowd() -> None:
        http = await listening.Http.on(Application("a-token", lambda *_: None), "127.0.0.1", 0)

        async def asked() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection("127.0.0.1", http.port)
            writer.write(health)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            return reader, writer

        kept = await asked()
        idle = [await asyncio.open_connection("127.0.0.1", http.port) for _ in range(40)]
        said = [await asyncio.wait_for(reader.read(), 20) for reader, _ in idle[:30]]
        assert all(each.startswith(b"HTTP/1.1 503 ") and b"8 connections at most" in each for each in said)
        last = await asked()
        kept[1].write(health)
        assert (await kept[0].readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert len(http.server_state.connections) <= 10
        for _, writer in (kept, last, *idle):
            writer.close()
        await http.end()

    asyncio.run(crowd())


class LongHealth(Application):
    async def _live(self, *_) -> Answer:
        return Answer(bytes(16 << 20))


@pytest.mark.parametrize(
    "request_of",
    [b"POST /other HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n12", b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n"],
    ids=["lingers", "deaf"],
)
def test_who_lingers_or_does_not_read_makes_room_for_others(monkeypatch, request_of):
    """The first are refused before their bodies are whole. The others ask for health, so they are answered beyond the limit."""
    monkeypatch.setattr(listening, "MOST_CONNECTIONS", 8)
    monkeypatch.setattr(Connection, "linger_seconds", 60.0)

    async def crowd() -> None:
        http = await listening.Http.on(LongHealth("a-token", lambda *_: None), "127.0.0.1", 0)
        stay = [await asyncio.open_connection("127.0.0.1", http.port, limit=1) for _ in range(8)]
        for _ in range(3):
            for _, writer in stay[-8:]:
                writer.write(request_of)
            await asyncio.gather(*(reader.read(1) for reader, _ in stay[-8:]))
            stay += [await asyncio.open_connection("127.0.0.1", http.port, limit=1) for _ in range(8)]
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", http.port)
            writer.write(b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n")
            said = await asyncio.wait_for(reader.read(), 20)
            assert said.startswith(b"HTTP/1.1 200 ") and len(said) > 16 << 20
            writer.close()
        assert len(http.server_state.connections) <= 10
        for _, writer in stay:
            writer.transport.abort()
        await http.end()

    asyncio.run(crowd())

"""Slow clients end; those that are there beside them, and 1,000 that ask nothing, disturb nobody."""

import asyncio
import functools
import http.client
import json
import socket
import threading
import time

import pytest
import uvicorn

from ctrlab.server.connections import Connection


async def says_hello(scope, receive, send):
    """An application that refuses what is sent to /no at once."""
    while scope["path"] != "/no" and (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture
def refused():
    """(status, why) of what the connections refused themselves."""
    return []


@pytest.fixture
def port(monkeypatch, refused):
    """The port of a server that allows half a second for a head, and as long again for a refused client to end."""
    monkeypatch.setattr(Connection, "head_seconds", 0.5)
    monkeypatch.setattr(Connection, "linger_seconds", 0.5, raising=False)
    made = functools.partial(Connection, refuse=lambda _, why, sentence: refused.append((why, sentence)))
    options = {"lifespan": "off", "timeout_keep_alive": 2, "limit_concurrency": 1001, "timeout_graceful_shutdown": 5}
    server = uvicorn.Server(uvicorn.Config(says_hello, port=0, http=made, log_config=None, **options))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(30)
    assert not thread.is_alive()


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
    for each in idle:
        each.close()

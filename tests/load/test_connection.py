"""A connection for one request after the other: kept, opened again, and how it says that there is no answer."""

import json

import pytest
from fake_servers import OK, answering, request, said, serving

from ctrlab.errors import CtrlabError
from ctrlab.load.client import Target
from ctrlab.load.connection import Connection, NoAnswer

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nX-Model-Version: 7\r\n\r\n3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n"
UNTIL_THE_END = b"HTTP/1.1 200 OK\r\n\r\n[1,2]"


def at(port):
    return Connection(Target("127.0.0.1", port), timeout=5)


def once(answer, count):
    """A handler that answers a request, ends the connection, and counts those that it has had."""

    async def handle(reader, writer):
        count.append(1)
        await request(reader)
        writer.write(answer)

    return handle


def test_a_connection_carries_one_request_after_the_other():
    heads = []

    async def handle(reader, writer):
        heads.append([])
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            heads[-1].append(head.decode())
            body = await reader.readexactly(2) if head.startswith(b"POST") else b""
            writer.write(said(body or b"none"))

    with serving(handle) as port, at(port) as server:
        assert server.ask("POST", "/a", b"{}", "a-token", X_User_Id="A1").body == b"{}"
        assert server.ask("GET", "/b").body == b"none"
    (posted, got), *others = heads
    assert not others and posted.startswith("POST /a HTTP/1.1\r\n") and "Authorization: Bearer a-token\r\nX-User-Id: A1" in posted
    assert got.startswith("GET /b HTTP/1.1\r\n") and "Content-Length" not in got


@pytest.mark.parametrize("answer", [CHUNKED, UNTIL_THE_END, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n[1,2]"])
def test_a_body_is_whole_however_its_end_is_told(answer):
    with serving(once(answer, [])) as port, at(port) as server:
        found = server.ask("POST", "/", b"{}")
    assert found.status == 200 and json.loads(found.body) == [1, 2]
    assert found.headers.get(b"x-model-version", b"7") == b"7"


def test_an_answer_that_ends_the_connection_is_followed_by_another():
    count = []
    with serving(once(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), count)) as port, at(port) as server:
        assert [server.ask("POST", "/", b"{}").status for _ in range(3)] == [200] * 3 and len(count) == 3


@pytest.mark.parametrize("half", [b"", OK[:20], OK[:-1], CHUNKED[:-5], b"SSH-2.0\r\n\r\n"])
def test_half_an_answer_is_none_and_the_request_may_have_arrived(half):
    with serving(once(half, [])) as port, at(port) as server, pytest.raises(NoAnswer, match=f"127.0.0.1:{port} does not") as told:
        server.ask("POST", "/", b"{}")
    assert told.value.sent


def test_an_interrupt_leaves_no_answer_for_the_next_request(monkeypatch):
    async def handle(reader, writer):
        while True:
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1]
            writer.write(said(path))

    class Interrupted:
        def feed(self, data):
            raise KeyboardInterrupt

    with serving(handle) as port, at(port) as server:
        assert server.ask("GET", "/1").body == b"/1"
        monkeypatch.setattr(server, "_reader", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            server.ask("GET", "/2")
        assert server.ask("GET", "/3").body == b"/3"


def test_a_connection_that_is_refused_has_sent_nothing():
    with pytest.raises(NoAnswer) as told:
        at(1).ask("GET", "/")
    assert not told.value.sent


def test_a_server_that_is_silent_is_not_waited_for():
    with serving(answering(seconds=30)) as port, pytest.raises(NoAnswer, match="timed out"):
        Connection(Target("127.0.0.1", port), timeout=0.2).ask("GET", "/")


def test_a_header_is_printable_ascii():
    with pytest.raises(CtrlabError, match="Authorization is not"):
        at(1).ask("GET", "/", token="é")

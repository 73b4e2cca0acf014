"""Connections to an instance: kept, closed, reset, and not to be had."""

import asyncio
import errno
import json
import select
import socket
import threading
import time

import pytest
from fake_fleets import ask, fleet_of, plan, states, until

from ctrlab.fleet.instances import upstream
from ctrlab.fleet.instances.front import TRIES, Front
from ctrlab.fleet.instances.instance import Changed, Instance, State
from ctrlab.fleet.instances.upstream import Broken, Reply, Upstream

YES = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"


class Server:
    """Each connection is answered by `answer`, in a thread."""

    def __init__(self, answer):
        self.socket, self._answer, self.connections = socket.create_server(("127.0.0.1", 0)), answer, []
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            connection, _ = self.socket.accept()
            self.connections.append(connection)
            threading.Thread(target=self._answer, args=(connection, len(self.connections)), daemon=True).start()


def answer_all(connection, number):
    while connection.recv(1 << 16):
        connection.sendall(YES)


def answer_one(connection, number):
    connection.recv(1 << 16)
    connection.sendall(YES)
    if number == 1:
        connection.close()
        closed.set()


closed = threading.Event()


def reset_the_second(connection, number):
    connection.recv(1 << 16)
    connection.sendall(YES)
    select.select([connection], [], [])
    connection.close()  # with bytes that nobody has read


def end_the_second(connection, number):
    for said in (YES, b""):
        connection.recv(1 << 16)
        connection.sendall(said)
    connection.close()


def half_of_the_second(connection, number):
    connection.recv(1 << 16)
    connection.sendall(YES)
    select.select([connection], [], [])
    connection.sendall(YES[:10])
    time.sleep(0.1)
    connection.close()


def test_a_connection_that_nobody_uses_is_closed_also_where_no_request_comes(monkeypatch):
    monkeypatch.setattr(upstream, "KEPT_SECONDS", 0.2)
    server = Server(answer_all)

    async def burst():
        asks = Upstream("127.0.0.1", server.port)
        await asyncio.gather(*[asks.ask("GET", "/") for _ in range(10)])
        assert len(server.connections) == 10
        await asyncio.sleep(0.1)
        await asks.ask("GET", "/")
        assert len(server.connections) == 10, "one is used again"
        await asyncio.sleep(0.15)
        return [len(select.select([each], [], [], 0)[0]) for each in server.connections]

    assert sorted(asyncio.run(burst())) == [0] + [1] * 9, "all are closed but that which was used again"


def test_a_connection_that_the_other_side_has_closed_takes_no_request():
    """Also where this process has had no time yet to see it."""

    async def two():
        asks = Upstream("127.0.0.1", Server(answer_one).port)
        await asks.ask("GET", "/")
        assert closed.wait(5)
        return await asks.ask("GET", "/")

    assert asyncio.run(two()).body == b"OK"


@pytest.mark.parametrize(("answer", "unread"), [(reset_the_second, True), (end_the_second, False), (half_of_the_second, False)])
def test_who_resets_a_connection_before_a_byte_of_an_answer_has_not_read_the_request(answer, unread):
    async def two():
        asks = Upstream("127.0.0.1", Server(answer).port)
        await asks.ask("GET", "/")
        with pytest.raises(Broken) as broken:
            await asks.ask("POST", "/", body=b"x" * 1000)
        return broken.value

    found = asyncio.run(two())
    assert (found.sent, found.unread, found.ours) == (True, unread, False)


class Says:
    """In place of an instance's upstream: raises or returns what comes next, the last one for ever."""

    port = 1

    def __init__(self, *all):
        self.left, self.asked = list(all), 0

    async def ask(self, *_):
        self.asked += 1
        found = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        if isinstance(found, Broken):
            raise found
        return found


OK = Reply(200, (), b"OK")
UNREAD, BROKEN = Broken("unread", True, unread=True), Broken("broken", True)


@pytest.mark.parametrize(
    ("says", "answered", "sent"),
    [
        ([UNREAD, BROKEN, OK], True, TRIES + 1),
        ([UNREAD], False, TRIES + 1),  # it kills instances before they have read it
        ([BROKEN], False, TRIES),
        ([BROKEN, UNREAD, OK], True, TRIES + 1),
    ],
)
def test_a_try_that_no_process_has_read_does_not_count_but_only_once(says, answered, sent):
    async def asked():
        instance, doubted = Instance("all-1", "all"), []
        instance.state, instance.upstream = State.READY, Says(*says)
        front = Front([instance], "", Changed(), doubted.append)
        try:
            _, reply = await front._answered("all", "POST", "/", [], b"")
        except Broken:
            reply = None
        assert len(doubted) == instance.upstream.asked - answered
        return instance.upstream.asked, reply

    assert asyncio.run(asked()) == (sent, OK if answered else None)


def test_a_fleet_without_files_doubts_nobody_and_answers_once_it_has_some(tmp_path, monkeypatch):
    with fleet_of(plan(tmp_path / "a")) as found:
        opens, none, tried = asyncio.open_connection, threading.Event(), []

        async def open_connection(*place):
            tried.append(none.is_set())
            if none.is_set():
                raise OSError(errno.EMFILE, "Too many open files")
            return await opens(*place)

        for instance in found.fleet.instances:
            monkeypatch.setattr(instance.upstream, "_idle", type(instance.upstream._idle)(maxlen=0))  # none is kept
        none.set()
        monkeypatch.setattr(asyncio, "open_connection", open_connection)
        threading.Timer(2.0, none.clear).start()
        assert ask(found.port, "x")[0] == 200
        assert sum(tried) > 10 and states(found) == ["ready"] * 2
        assert [each["starts"] for each in found.told().values()] == [1, 1]
        assert "second_tries_total{" not in ask(found.port, path="/metrics", method="GET")[2].decode()


def test_time_in_which_the_fleet_itself_stands_still_is_no_silence(tmp_path):
    with fleet_of(plan(tmp_path / "a", instances=1)) as found:
        there = found.fleet.instances[0].upstream
        real, stood = there.ask, []

        async def ask_slowly(method, path, *rest):
            if "health" in path and not stood:
                stood.append(path)
                time.sleep(1.5)  # longer than an instance may be silent
                await asyncio.sleep(1.0)
            return await real(method, path, *rest)

        there.ask = ask_slowly
        until(lambda: stood)
        until(lambda: states(found) == ["ready"])
        assert json.loads(ask(found.port)[2])["start"] == 1 and found.told()["all-1"]["starts"] == 1

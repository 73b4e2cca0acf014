"""The lesson's servers, with a program in place of `ctrlab serve`: what they do when a process ends, hangs or can't start."""

import os
import signal
import subprocess
import sys
import time

import pytest
from ctrlab.lessons.topics.fleet.servers import BEGIN, Servers, State

from ctrlab.errors import CtrlabError
from ctrlab.load.connection import NoAnswer

PROGRAM = """
import http.server, json, os, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", -1
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if body == b"die": os._exit(3)
        body = json.dumps({"pid": os.getpid(), "token": self.headers["Authorization"]}).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"HTTP on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
"""
SECONDS = 30.0


@pytest.fixture
def servers():
    found = Servers([sys.executable, "-c", PROGRAM], 2, "a-token")
    assert found.wait_until(lambda: found.states() == [State.READY] * 2, SECONDS)
    yield found
    pids = [each.pid for each in found.all.values()]
    found.close()
    assert found.states() == [State.STOPPED] * 2 and not any(alive(pid) for pid in pids)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_instance_answers_with_the_token(servers):
    assert b'"token": "Bearer a-token"' in servers.send("all-1", "/", b"x").body
    assert [each.inside for each in servers.all.values()] == [0, 0]


def test_one_that_ends_with_a_request_inside_is_suspect_and_then_another_process(servers):
    before = servers.all["all-1"].pid
    with pytest.raises(NoAnswer) as told:
        servers.send("all-1", "/", b"die")
    assert told.value.sent and servers.all["all-1"].state in (State.SUSPECT, State.CRASHED)
    assert servers.wait_until(lambda: servers.states() == [State.READY] * 2, SECONDS)
    assert servers.all["all-1"].pid != before and servers.send("all-1", "/", b"x").status == 200


def test_one_that_is_killed_takes_no_request_until_it_is_another_process(servers):
    servers.kill("all-2")
    assert servers.wait_until(lambda: servers.all["all-2"].state is State.STARTING, SECONDS)
    with pytest.raises(NoAnswer) as told:
        servers.send("all-2", "/", b"x")
    assert not told.value.sent
    assert servers.wait_until(lambda: servers.states() == [State.READY] * 2, SECONDS)


def test_who_waits_is_told_when_there_is_no_more_time(servers):
    begun = time.monotonic()
    assert not servers.wait_until(lambda: False, 0.2) and 0.2 <= time.monotonic() - begun < 5


def test_one_that_cannot_start_says_why():
    servers = Servers([sys.executable, "-c", "raise SystemExit('no weights')"], 1, "")
    with pytest.raises(CtrlabError, match="all-1 can't start: no weights"):
        servers.wait_until(lambda: False, SECONDS)
    servers.close()


def test_no_instance_outlives_the_process_that_began_it():
    program = f"import subprocess, sys, os; print(subprocess.Popen([sys.executable, '-c', {BEGIN!r}, str(os.getpid()), "
    program += "sys.executable, '-c', 'import time; time.sleep(60)']).pid, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        time.sleep(0.5)
        parent.send_signal(signal.SIGKILL)
        ends = time.monotonic() + SECONDS
        while alive(pid) and time.monotonic() < ends:
            time.sleep(0.05)
    assert not alive(pid)

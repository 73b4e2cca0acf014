"""A fleet as a process of its own: signals, its standard error, its end."""

import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import time

import pytest
from fake_fleets import FAKE, QUICK, alive, ask, behave, until

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from fake_fleets import plan
from pathlib import Path
from ctrlab.fleet.instances import run
from ctrlab.server.logs import write_json_lines
write_json_lines()
print(run.serve(plan(Path(sys.argv[2])), "127.0.0.1", 0, lambda port: print(port, flush=True)))
"""


@pytest.fixture
def begin(tmp_path):
    """Starts a process with a fleet of the folder `a`."""
    begun = []

    def start(**options):
        words = [sys.executable, "-c", PROGRAM, FAKE.parent, tmp_path / "a"]
        begun.append(subprocess.Popen(words, text=True, stdout=subprocess.PIPE, **{"stderr": subprocess.PIPE} | options))
        return begun[-1]

    yield start
    for process in begun:
        process.kill()
        process.wait()


def told_of(port):
    return json.loads(ask(port, path="/fleet", method="GET")[2])["instances"]


def pids_of(port):
    return [each["pid"] for each in told_of(port)]


def starts_of(port):
    return [each["starts"] for each in told_of(port)]


def ready(port):
    return ask(port, path="/v2/health/ready", method="GET", token="")[0] == 200


def test_sighup_replaces_and_sigterm_stops_all(begin):
    program = begin()
    port = int(program.stdout.readline())
    before = pids_of(port)
    program.send_signal(signal.SIGHUP)
    until(lambda: set(before).isdisjoint(pids_of(port)))
    until(lambda: ready(port))
    pids = pids_of(port)
    program.send_signal(signal.SIGTERM)
    said, told = program.communicate(timeout=60)
    assert (program.returncode, said) == (0, "0\n"), told
    assert not any(alive(pid) for pid in {*before, *pids}) and "Traceback" not in told


def test_no_instance_outlives_a_fleet_that_is_killed(begin):
    program = begin()
    pids = pids_of(int(program.stdout.readline()))
    program.kill()
    until(lambda: not any(alive(pid) for pid in pids))


def test_a_fleet_that_was_stopped_itself_kills_nobody(begin):
    program = begin()
    port = int(program.stdout.readline())
    before = pids_of(port)
    program.send_signal(signal.SIGSTOP)
    time.sleep(2 * QUICK.answer)
    program.send_signal(signal.SIGCONT)
    ends = time.monotonic() + 2 * QUICK.answer
    while time.monotonic() < ends:
        assert ask(port)[0] == 200 and pids_of(port) == before


def test_a_fleet_may_have_as_many_files_as_the_system_allows(begin):
    program = begin(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 500)))
    program.stdout.readline()
    assert resource.prlimit(program.pid, resource.RLIMIT_NOFILE) == (500, 500)


def test_many_sighups_at_once_are_one_replacement_and_one_more(begin):
    program = begin()
    port = int(program.stdout.readline())
    for _ in range(5):
        program.send_signal(signal.SIGHUP)
        time.sleep(0.02)
    until(lambda: starts_of(port) == [3, 3] and ready(port))
    time.sleep(2.0)
    assert starts_of(port) == [3, 3]


def test_a_sighup_before_the_fleet_is_ready_ends_nothing(begin, tmp_path):
    behave(tmp_path / "a", all={"start": 0.5})
    program = begin()
    until(lambda: (tmp_path / "a" / "start-1").exists())
    program.send_signal(signal.SIGHUP)
    port = int(program.stdout.readline())
    assert ready(port) and {ask(port)[0] for _ in range(4)} == {200}


def closed_pipe():
    read, write = os.pipe()
    os.close(read)
    return write, ()


def full_pipe():
    """That nobody reads."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    for size in (4096, 1):
        with pytest.raises(BlockingIOError):
            while True:
                os.write(write, b"x" * size)
    os.set_blocking(write, True)
    return write, (read,)


def full_disk():
    return os.open("/dev/full", os.O_WRONLY), ()


@pytest.mark.parametrize("made", [closed_pipe, full_pipe, full_disk])
def test_a_fleet_goes_on_when_nobody_can_be_told_what_it_says(begin, made):
    stderr, others = made()
    program = begin(stderr=stderr)
    fcntl.fcntl(program.stdout, fcntl.F_SETFL, fcntl.fcntl(program.stdout, fcntl.F_GETFL) | os.O_NONBLOCK)
    said = []
    until(lambda: said.append(program.stdout.readline()) or said[-1])
    port = int(said[-1])
    os.kill(pids_of(port)[0], signal.SIGKILL)
    until(lambda: ready(port) and starts_of(port) == [2, 1])
    assert {ask(port)[0] for _ in range(4)} == {200}
    program.send_signal(signal.SIGTERM)
    assert program.wait(20) == 0
    for number in (stderr, *others):
        os.close(number)

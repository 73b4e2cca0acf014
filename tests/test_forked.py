"""Forked processes behave as others do."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests import forked

SAYS = """
import json, os, sys
print(json.dumps([__name__, sys.argv, os.getcwd(), os.environ["WORD"], sys.stdin.read(), sys.path[0]]))
print("to errors", file=sys.stderr)
sys.exit(7)
"""


def both(words, **options):
    """(forked, started by `subprocess`): exit code, output and errors."""
    options |= {"capture_output": True, "text": True}
    for start in (forked.run, subprocess.run):
        ran = start([sys.executable, *words], **options)
        yield ran.returncode, ran.stdout, ran.stderr


@pytest.mark.parametrize("by", ["program", "-c", "-m"])
def test_a_program_finds_what_it_would_find(by, tmp_path):
    (tmp_path / "says.py").write_text(SAYS)
    words = {"program": [str(tmp_path / "says.py")], "-c": ["-c", SAYS], "-m": ["-m", "says"]}[by]
    environment = os.environ | {"WORD": "of the test"}
    one, other = both([*words, "first", "-m"], cwd=tmp_path, env=environment, input="read this")
    assert one == other
    assert one[0] == 7 and one[2] == "to errors\n" and "of the test" in one[1]


@pytest.mark.parametrize(
    "code", ["pass", "raise SystemExit('no')", "1 / 0", "import os; os.kill(os.getpid(), 9)", "import nothing"]
)
def test_it_ends_as_it_would_end(code):
    (code, _, errors), (expected_code, _, expected) = both(["-c", code])
    assert code == expected_code
    assert errors.splitlines()[-1:] == expected.splitlines()[-1:]


def test_it_leaves_in_order():
    code = "import atexit, threading, time; atexit.register(print, 'last'); threading.Timer(0.1, print, ['first']).start()"
    assert forked.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "first\nlast\n"


def test_tensorflow_is_imported_and_has_not_run():
    code = """
import os, sys
assert "tensorflow" in sys.modules
from tensorflow.python.eager import context
assert context._context is None
assert len(os.listdir("/proc/self/task")) == 1
assert sorted(os.listdir("/proc/self/fd"))[:3] == ["0", "1", "2"] and len(os.listdir("/proc/self/fd")) == 4
import tensorflow as tf
print(tf.reduce_sum(tf.ones([300, 300]) @ tf.ones([300, 300])).numpy())
"""
    ran = forked.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout == "2.7e+07\n", ran.stderr


def test_it_can_be_waited_for_and_ended():
    with forked.Popen(
        [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(100)"], stdout=subprocess.PIPE
    ) as it:
        assert it.stdout.readline() == b"here\n"
        assert it.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            it.wait(0.1)
        it.send_signal(signal.SIGTERM)
        assert it.wait(20) == it.returncode == -signal.SIGTERM
    assert not os.path.exists(f"/proc/{it.pid}")
    with pytest.raises(subprocess.TimeoutExpired):
        forked.run([sys.executable, "-c", "import time; time.sleep(100)"], timeout=0.2)
    with pytest.raises(subprocess.CalledProcessError):
        forked.run([sys.executable, "-c", "1 / 0"], check=True, stderr=subprocess.DEVNULL)


def test_it_keeps_the_files_that_are_passed_on():
    reader, writer = os.pipe()
    code = "import os, sys; os.write(int(sys.argv[1]), b'kept')"
    forked.run([sys.executable, "-c", code, str(writer)], pass_fds=[writer], check=True)
    os.close(writer)
    assert os.read(reader, 10) == b"kept" == b"kept" + os.read(reader, 10)
    os.close(reader)


def test_it_ends_with_the_process_that_began_it():
    code = """
import sys, time
from tests import forked
print(forked.Popen([sys.executable, "-c", "import time; time.sleep(100)"]).pid, flush=True)
time.sleep(100)
"""
    with forked.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=forked.ROOT) as beginning:
        pid = int(beginning.stdout.readline())
        assert os.path.exists(f"/proc/{pid}")
        beginning.kill()
    until = time.monotonic() + 20
    while os.path.exists(f"/proc/{pid}"):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_what_it_starts_is_a_fork_of_it_until_tensorflow_has_run():
    code = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: None)
print("once", end=" ")
says = "import os, signal, sys; print('tensorflow' in sys.modules, os.getppid(), int(signal.getsignal(15))); sys.exit(9)"
def starts():
    ran = subprocess.run([sys.executable, "-c", says], stdout=subprocess.PIPE, text=True)
    imported, parent, handler = ran.stdout.split()
    assert (ran.returncode, int(parent), handler) == (9, os.getpid(), "0")
    print(imported)
starts()
import tensorflow as tf
tf.zeros(1)
starts()
"""
    ran = forked.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout == "once True\nFalse\n", ran.stderr


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ([sys.executable, "-S", "-c", "pass"], {}),
        (["/bin/true"], {}),
        ([sys.executable, "-c", "pass"], {"env": os.environ | {"LD_PRELOAD": "any.so"}}),
        ([sys.executable, "-c", "pass"], {"preexec_fn": print}),
    ],
)
def test_what_is_read_at_the_start_of_a_process_is_refused(command, options):
    with pytest.raises(ValueError, match="use subprocess"):
        forked.run(command, **options)


def test_processes_of_the_package_are_forked_where_they_can_be():
    code = "import sys; sys.exit('tensorflow' in sys.modules)"
    with forked.forking():
        assert subprocess.run([sys.executable, "-c", code]).returncode == 1
        assert subprocess.run([sys.executable, "-S", "-c", code]).returncode == 0
        assert subprocess.run("exit 3", shell=True).returncode == 3
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

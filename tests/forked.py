"""Processes that begin with TensorFlow imported: `forked.run` and `forked.Popen` instead of those of `subprocess`.

Importing TensorFlow takes four seconds of CPU, and a fork of a process that has imported it and used none of it takes none. The
first call starts a server, which imports and then waits. For each command it forks a child, which becomes the program.

A command is `[sys.executable, program.py | -m module | -c code, arguments...]`, as for `subprocess`, whose options hold but for
`preexec_fn` and `shell`. What is read when a process starts can't be given to a child any more: see `COLD`. Tests of
such things, of what a program imports, of limits of memory and of cold starts take `subprocess`.

With `forking()`, or the fixture `forked_processes`, what the package starts by `subprocess` is forked, too, where it can be. So
is what a child starts itself, as `ctrlab train --workers 2` does, until TensorFlow has run in it.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
import types
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEFORE = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
"""The server's variables: those from before any test changed one."""
NUMBER = struct.Struct("i")
END = struct.Struct("id")
"""How a child ended, and the CPU seconds that it and its children took."""
BEGIN = "import sys; sys.path.append(sys.argv[1]); from tests import forked; forked.become(*forked.serve(int(sys.argv[2])))"
INHERITED = -1
HIGH = 500
"""No file of a process has such a number."""
COLD = ("LD_PRELOAD", "MALLOC_ARENA_MAX", "OMP_NUM_THREADS", "PYTHONHASHSEED", "PYTHONSAFEPATH", "TF_ENABLE_ONEDNN_OPTS")
"""Variables that are read when a process starts. TF_CPP_MIN_LOG_LEVEL is, too; to a forked child it is 3 whatever is asked."""


_Cold = subprocess.Popen


class Popen(_Cold):
    """A forked child. It belongs to the server: `os.waitpid` doesn't know it."""

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, _, flags, shell, *more):
        *pipes, _, group, groups, user, umask, new_session, process_group = more
        env = dict(os.environ if env is None else env)
        others = (group, groups, user) != (None, None, None) or (umask, process_group) != (-1, -1)
        if reason := why_not(args, env, preexec_fn or shell or executable or others):
            raise ValueError(f"{reason}; use subprocess")
        words = [os.fspath(word) for word in args[1:]]
        kept = list(pass_fds)
        request = {"words": words, "cwd": os.path.abspath(cwd or "."), "env": env, "session": new_session, "kept": kept}
        streams = [own if given == INHERITED else given for own, given in enumerate((pipes[0], pipes[3], pipes[5]))]
        try:
            self._fork(request, [*streams, *kept])
        finally:
            self._close_pipe_fds(*pipes)
        self._child_created = True

    def _fork(self, request: dict, fds: list[int]) -> None:
        self._said, tells = os.pipe()
        try:
            socket.send_fds(server(), [json.dumps(request).encode()], [tells, *fds])
        finally:
            os.close(tells)
        [self.pid] = self._told(NUMBER)

    def _told(self, what: struct.Struct) -> tuple:
        said = os.read(self._said, what.size)
        if not said:
            log = os.pread(_logs[os.getpid()], 1 << 16, 0).decode(errors="replace")
            raise RuntimeError(f"The server of forked processes has ended: {log[-2000:]}")
        return what.unpack(said)

    def _ended_within(self, seconds: float | None) -> bool:
        """Whether it ends in time; None waits."""
        until = None if seconds is None else time.monotonic() + seconds
        if not self._waitpid_lock.acquire(timeout=-1 if seconds is None else seconds):
            return False  # another thread waits
        try:
            seconds = until and max(0.0, until - time.monotonic())
            if self.returncode is None:
                with selectors.DefaultSelector() as selector:
                    selector.register(self._said, selectors.EVENT_READ)
                    if not selector.select(seconds):
                        return False
                status, seconds = self._told(END)
                _spent.append(seconds)
                self.returncode = os.waitstatus_to_exitcode(status)
                os.close(self._said)
        finally:
            self._waitpid_lock.release()
        return True

    def _internal_poll(self, *_, **__):
        self._ended_within(0)
        return self.returncode

    def _wait(self, timeout):
        if not self._ended_within(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode


def run(args, *, input=None, capture_output=False, timeout=None, check=False, **options) -> subprocess.CompletedProcess:
    """Like `subprocess.run`, but the command runs in a forked process."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(args, **options) as process:
        try:
            out, errors = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    ran = subprocess.CompletedProcess(process.args, process.returncode, out, errors)
    if check:
        ran.check_returncode()
    return ran


def why_not(command, env, more=None) -> str | None:
    """Why a process can't be forked; None if it can."""
    if more:
        return "A forked child takes no preexec_fn, shell or executable"
    python, first = [*map(os.fspath, command), ""][:2] if isinstance(command, list | tuple) else (command, "")
    if python != sys.executable or not (first in ("-m", "-c") or first.endswith(".py")):
        return f"A forked child runs this Python with a program, -m or -c, not {[python, first]}"
    changed = [name for name in COLD if env.get(name) != BEFORE.get(name)]
    return f"A forked child has read {changed[0]} already" if changed else None


class _Either(Popen):
    """Forked where it can be, and `subprocess.Popen` as it was otherwise."""

    def __new__(cls, args, *positional, **options):
        odd = positional or any(options.get(name) for name in ("preexec_fn", "shell", "executable"))
        if why_not(args, options.get("env") or os.environ, odd):
            return _Cold(args, *positional, **options)
        return super().__new__(cls)


class _Heir(_Either):
    """The process that a forked child starts: a fork of itself, until TensorFlow has run in it."""

    _internal_poll, _wait = _Cold._internal_poll, _Cold._wait

    def __new__(cls, *arguments, **options):
        ran = sys.modules["tensorflow.python.eager.context"]._context is not None
        return _Cold(*arguments, **options) if ran else super().__new__(cls, *arguments, **options)

    def _fork(self, request, fds):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self.pid = os.fork()
        if not self.pid:
            live(request, fds)


@contextlib.contextmanager
def forking():
    """A block in which `subprocess.Popen`, `run` and their like fork what they can."""
    subprocess.Popen = _Either
    try:
        yield
    finally:
        subprocess.Popen = _Cold


# This process's side of the server.

_started: dict[int, socket.socket] = {}
_starting = threading.Lock()
_logs: dict[int, int] = {}
_spent: list[float] = []


def spent() -> float:
    """CPU seconds of all children that have ended."""
    return sum(_spent)


def server() -> socket.socket:
    """The connection to this process's own server, which ends with it."""
    with _starting:
        if os.getpid() not in _started:
            ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with its:
                command = [sys.executable, "-c", BEGIN, str(ROOT), str(its.fileno())]
                log = os.memfd_create("what the server says")
                streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
                _Cold(command, cwd=ROOT, env=BEFORE, pass_fds=[its.fileno()], **streams).returncode = 0  # nobody waits for it
                _logs[os.getpid()] = log
            _started[os.getpid()] = ours
    return _started[os.getpid()]


# The server's side.

_path: list[str] = []
"""Where modules are found, but for those beside a program."""


def serve(connection: int) -> tuple[dict, list[int]]:
    """Forks a child for each request, until the tests' process ends. Returns in each child: its request and files."""
    _path[:] = sys.path[1:-1]
    import_all()
    warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # from Python 3.12: libraries' threads, which provide for it
    requests = socket.socket(fileno=connection)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the tests, whose end ends this process
    children = {}
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.data is None:
                    message, fds, _, _ = socket.recv_fds(requests, 1 << 20, 100)
                    if not message:
                        end(children)
                    if not (pid := os.fork()):
                        for held in (*children, *(tells for _, tells in children.values())):
                            os.close(held)
                        requests.close()
                        os.close(fds[0])
                        signal.signal(signal.SIGINT, signal.default_int_handler)
                        return json.loads(message), fds[1:]
                    for fd in fds[1:]:
                        os.close(fd)
                    os.write(fds[0], NUMBER.pack(pid))
                    watch = os.pidfd_open(pid)
                    children[watch] = pid, fds[0]
                    selector.register(watch, selectors.EVENT_READ, watch)
                else:
                    pid, tells = children.pop(key.data)
                    selector.unregister(key.data)
                    _, status, used = os.wait4(pid, 0)
                    with contextlib.suppress(BrokenPipeError):  # nobody asks any more
                        os.write(tells, END.pack(status, used.ru_utime + used.ru_stime))
                    os.close(tells)
                    os.close(key.data)


def import_all() -> None:
    """Imports the modules that take longest. Nothing here may start TensorFlow's runtime, because a child would not have its
    threads.
    """
    import gc

    import keras  # noqa: F401
    import tensorflow  # noqa: F401

    import ctrlab.cli
    import ctrlab.models
    import ctrlab.training  # noqa: F401

    gc.freeze()


def end(children: dict) -> None:
    """Ends the server, and the children that are left."""
    for pid, _ in children.values():
        os.kill(pid, signal.SIGKILL)
    os._exit(0)


def live(request: dict, fds: list[int]) -> None:
    """The whole life of a child that was forked in the middle of a program."""
    code = 1
    try:
        for number in filter(lambda number: callable(signal.getsignal(number)), signal.valid_signals()):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        atexit._clear()
        become(request, fds)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def become(request: dict, fds: list[int]) -> None:
    """The child: becomes the program."""
    given = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH) for fd in fds]  # none has a number that another is to have
    os.closerange(3, HIGH)
    for fd, wanted in zip(given, (0, 1, 2, *request["kept"])):
        os.dup2(fd, wanted)
        os.close(fd)
    subprocess.Popen = _Heir
    if request["session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.modules["numpy"].random.seed()
    first, *rest = request["words"]
    asked = os.environ.get("PYTHONPATH")
    path = [] if asked == BEFORE.get("PYTHONPATH") else (asked or "").split(os.pathsep)
    if first == "-m":
        sys.argv = rest
        sys.path[:] = [os.getcwd(), *path, *_path]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    main = types.ModuleType("__main__")
    if first == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path[:] = ["", *path, *_path]
        code = compile(rest[0], "<string>", "exec")
    else:
        sys.argv = [first, *rest]
        sys.path[:] = [os.path.dirname(os.path.abspath(first)), *path, *_path]
        main.__file__ = first
        code = compile(Path(first).read_bytes(), first, "exec")
    sys.modules["__main__"] = main
    exec(code, main.__dict__)

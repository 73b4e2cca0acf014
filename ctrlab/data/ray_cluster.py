"""A connection to Ray: to the cluster that the program belongs to, or to one of its own that nobody else can reach."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator

from ctrlab.errors import CtrlabError

LOOPBACK = "127.0.0.1"
CONNECT_SECONDS = 10
START_TRIES = 3


@contextlib.contextmanager
def cluster(processes: int | None = None) -> Iterator[int]:
    """A context in which this process is connected to Ray; its value is the number of the cluster's CPUs.

    A program that has called `ray.init`, or whose environment has `RAY_ADDRESS`, works with that cluster. Otherwise the context
    starts its own cluster: on loopback, with a token that only its processes know, without dashboard and usage reports. It leaves
    no files, unless SIGKILL ends this process.

    Args:
        processes: number of CPUs of a cluster that is started; None: those of the machine.
    Raises:
        CtrlabError: Ray is not installed, or can't be reached or started.
    """
    try:
        import ray
    except ImportError as missing:
        raise CtrlabError(f"Ray is in the extra `ray`; {missing.name} is not installed: pip install 'ctrlab[ray]'.") from None
    with contextlib.ExitStack() as last:
        if not ray.is_initialized():
            try:
                if address := os.environ.get("RAY_ADDRESS"):
                    _require_listener(address)
                    ray.init(logging_level="ERROR")
                else:
                    _start(processes, last.enter_context(tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)))
            except Exception as problem:  # Ray's own are of many kinds, some of none
                ray.shutdown()
                raise CtrlabError(f"Ray can't be reached or started: {str(problem).strip().splitlines()[0]}") from problem
            last.callback(ray.shutdown)
        yield int(ray.cluster_resources().get("CPU", 1))


def _require_listener(address: str) -> None:
    """Raises OSError if nobody listens there; Ray itself tries for many minutes."""
    if found := re.fullmatch(r"(?:ray://)?([^/]+):(\d+)", address):
        try:
            socket.create_connection((found[1].strip("[]"), int(found[2])), CONNECT_SECONDS).close()
        except OSError as problem:
            raise OSError(f"RAY_ADDRESS is {address}: {problem.strerror or problem}.") from None


def _start(processes: int | None, folder: str) -> None:
    """Starts a cluster, whose logs and sockets lie in the folder."""
    import ray
    from ray._private import ray_constants

    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # a process reads it once, so it stays the same
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    # Only by this does Ray take loopback, in its processes and, where Ray was imported before, in this one.
    os.environ[ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR] = "0"
    ray_constants.ENABLE_RAY_CLUSTER = False
    here = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT) if here}
    options = {"num_cpus": processes, "include_dashboard": False, "logging_level": "ERROR", "_temp_dir": folder}
    for left in reversed(range(START_TRIES)):
        try:
            ray.init("local", **options)
            break
        except Exception:  # it gives its processes half a minute, which is too little on a busy machine
            ray.shutdown()
            if not left:
                raise
    for number, handler in handlers.items():  # Ray has put its own over them
        signal.signal(number, handler)
    if (address := ray.util.get_node_ip_address()) != LOOPBACK:
        raise RuntimeError(f"version {ray.__version__} listens on {address}, where others could reach it.")

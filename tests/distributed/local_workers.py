"""Starts a program of this folder as several workers, which begin with TensorFlow imported (`tests/forked.py`)."""

import os
import subprocess
import sys
from pathlib import Path

from ctrlab.distributed.launch import free_ports
from ctrlab.distributed.place import Place
from tests import forked

HERE = Path(__file__).parent
LIMIT_SECONDS = 400


def start_workers(count: int, program: str, *arguments, addresses=None, **options) -> list[forked.Popen]:
    """`addresses`: of all workers; or for each worker those by which it knows them."""
    addresses = addresses or tuple(f"127.0.0.1:{port}" for port in free_ports(count))
    started = []
    for index in range(count):
        known = addresses if isinstance(addresses[0], str) else addresses[index]
        environment = os.environ | Place(known, index).config() | {"TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [sys.executable, HERE / program, *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(forked.Popen(command, env=environment, **pipes, **options))
    return started


def run_workers(count: int, program: str, *arguments, **options) -> list[str]:
    """The output of each worker. All must end with success."""
    started = start_workers(count, program, *arguments, **options)
    try:
        said = [worker.communicate(timeout=LIMIT_SECONDS) for worker in started]
    finally:
        for worker in started:
            worker.kill()
    ends = [(worker.returncode, f"worker {index}", errors) for index, (worker, (_, errors)) in enumerate(zip(started, said))]
    for code, who, errors in sorted(ends):  # one that was killed first: the others say what its end did to them
        assert code == 0, f"{who}, {code}: {errors[-3000:]}"
    return [out for out, _ in said]

"""TensorFlow's own cluster of workers, with limits to how long it waits. Names that TensorFlow calls private are here and in
`ctrlab.keras_hooks`.

`tf.distribute.MultiWorkerMirroredStrategy` opens the process's port and waits until all workers are there. From then on the first
worker's coordination service receives all heartbeats; if those of a worker stop, the exchanges of all workers end. No public name
sets its time limits, but a service that was configured before keeps its settings. The first wait has no limit at all.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.compiler.xla.tsl.protobuf.coordination_config_pb2 import CoordinatedJob
from tensorflow.python.eager.context import context

from ctrlab.distributed.place import HEARTBEAT_SECONDS

START_SECONDS = 300
"""Seconds within which all workers must connect."""
WATCH = """
import os, signal, sys, time
process, late = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
while time.monotonic() < late:
    if os.getppid() != process:  # it has ended, and its number may be another's soon
        sys.exit()
    time.sleep(0.1)
print(sys.argv[3], file=sys.stderr)
os.kill(process, signal.SIGKILL)
"""
SAID = "ctrlab: "
"""The text before a worker's sentence in the errors of the other workers' exchanges."""


def connect(workers: int, start_seconds: float, sentence: str) -> None:
    """Opens the port that `TF_CONFIG` gives this process, and waits for the other workers.

    Args:
        start_seconds: time after which the process ends if a worker is missing.
        sentence: its message on stderr then.
    Raises:
        RuntimeError: TensorFlow has run something in this process before. OpError: the port is taken.
    """
    context().configure_coordination_service(
        service_type="standalone",
        service_leader="/job:worker/replica:0/task:0",
        heartbeat_timeout_in_ms=1_000 * HEARTBEAT_SECONDS,
        shutdown_barrier_timeout_in_ms=1_000 * HEARTBEAT_SECONDS,
        coordinated_jobs=[CoordinatedJob(name="worker", num_tasks=workers)],
    )
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    with _at_most(start_seconds, sentence):
        tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    if threading.current_thread() is threading.main_thread():  # TensorFlow has put its own handler over Python's
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))


def end_all(sentence: str) -> None:
    """Ends the exchanges of all workers at once. The exchanges of the others raise an error that `sentence_in` reads. Without
    this call they would first have to miss this worker's heartbeats.
    """
    with contextlib.suppress(tf.errors.OpError):  # they know of another loss already
        context().report_error_to_cluster(tf.errors.ABORTED, SAID + " ".join(sentence.split()))


def sentence_in(error: str) -> tuple[int, str] | None:
    """The worker that ended all exchanges, and its sentence; None if the error contains none."""
    found = re.search(rf"/task:(\d+): {SAID}(.*)", error)
    return (int(found[1]), found[2]) if found else None


@contextlib.contextmanager
def _at_most(seconds: float, sentence: str) -> Iterator[None]:
    """A context that ends the process, with a sentence on stderr, if it takes longer than the given seconds. TensorFlow waits in
    C++ without releasing Python's global lock, so another process must watch the time.
    """
    watched = [str(os.getpid()), str(seconds), f"Error: {sentence}"]
    watch = subprocess.Popen([sys.executable, "-S", "-c", WATCH, *watched], stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        watch.kill()
        watch.wait()

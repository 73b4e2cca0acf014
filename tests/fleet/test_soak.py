"""`ctrlab fleet` with real servers: updates are published and instances die, while requests come at random moments. Every request
is answered, each answer is of one published moment, and memory stays what it was."""

import contextlib
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))  # trainers, wire_requests, served
from served import TOLERANCE, first, probabilities
from trainers import Trainer, published
from wire_requests import by_columns

from ctrlab.load import arrivals
from ctrlab.serving import inputs
from ctrlab.serving.versions import versions

TOKEN = "a-token"
CLIENTS = 64
SETTLED = 0.5
"""Of the time: then memory has its size."""


class Command:
    """`ctrlab fleet` as a process."""

    def __init__(self, folder, *options):
        words = [sys.executable, "-m", "ctrlab", "fleet", folder, "--port", "0", *options]
        environment = os.environ | {"CTRLAB_TOKEN": TOKEN, "TF_CPP_MIN_LOG_LEVEL": "3"}
        self.process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
        said = self.process.stdout.readline()
        self.port = int(re.search(r"HTTP on http://127\.0\.0\.1:([0-9]+)", said)[1])

    def ask(self, path, body=None):
        """(status, headers, body)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("POST" if body else "GET", path, body, {"Authorization": f"Bearer {TOKEN}"})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def instances(self):
        """{name: what the fleet tells of it}."""
        return {each["name"]: each for each in json.loads(self.ask("/fleet")[2])["instances"]}

    def until_ready(self):
        ends = time.monotonic() + 120
        while any(each["state"] != "ready" for each in self.instances().values()):
            assert time.monotonic() < ends, self.instances()
            time.sleep(0.1)


@dataclass
class Answer:
    status: int
    moment: tuple[int, int]
    instance: str
    which: int
    seconds: float
    body: bytes


class Load:
    """Requests at random moments, whether or not others were answered, in threads."""

    def __init__(self, command, bodies, rate, seconds, seed):
        self.answers: list[Answer] = []
        self.asked = 0
        self._command, self._bodies = command, bodies
        self._due = arrivals.poisson(rate, seconds, seed)
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def wait(self):
        self._thread.join()

    def _send(self):
        begun = time.monotonic()
        with ThreadPoolExecutor(CLIENTS) as pool:
            for number, due in enumerate(self._due):
                time.sleep(max(0.0, begun + due - time.monotonic()))
                self.asked += 1
                pool.submit(self._ask, number % len(self._bodies), begun + due)

    def _ask(self, which, due):
        status, headers, body = self._command.ask("/v1/models/ctr:predict", self._bodies[which])
        moment = int(headers.get("x-model-version", 0)), int(headers.get("x-model-update", 0))
        self.answers.append(Answer(status, moment, headers.get("x-instance", ""), which, time.monotonic() - due, body))


def megabytes(pid):
    """Of memory that a process has for itself."""
    return int(re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


class Moments:
    """A training that publishes, and what is answered after each publication: {(version, update): answers to each request}."""

    def __init__(self, trainer, folder, requests):
        self.trainer, self.folder, self.requests = trainer, folder, requests
        self.publisher = trainer.publisher(folder, every=1e9, full_every=4)
        self.expected = {}

    def publish(self):
        for _ in range(3):
            self.trainer.step()
        found = [probabilities(self.trainer.model, each) for each in self.requests]
        published(self.publisher)
        version = versions(self.folder)[-1]
        update = max((int(path.name) for path in (self.folder / f"{version}.updates").glob("[0-9]*")), default=0)
        assert (version, update) not in self.expected
        self.expected[version, update] = found


def soak(small_batches, folder, *, instances, rate, seconds, publish_every, kill_every, kinds, seed):
    """Runs it. Returns the answers, what was published, {process: megabytes each second}, the restarts, and how many were asked.

    Args:
        kinds: signals that an instance gets every so many seconds, in random order; the first instance gets none.
    """
    chance = random.Random(seed)
    trainer = Trainer(small_batches, "dlrm", embedding="variable")
    requests = [first(features, 20) for features, _ in trainer.batches[:4]]
    columns = inputs.inputs_of(trainer.model, "text")
    bodies = [by_columns(inputs.to_tensors(each, columns, trainer.model)) for each in requests]
    moments = Moments(trainer, folder / "ctr", requests)
    moments.publish()
    command = Command(folder, "--instances", str(instances))
    memory = {"front": [], "all-1": []}
    try:
        load = Load(command, bodies, rate, seconds, seed)
        ends, publish_at, kill_at = time.monotonic() + seconds, 0.0, time.monotonic() + kill_every / 2
        left = [kind for kind in kinds for _ in range(round(seconds / kill_every / len(kinds)))]
        chance.shuffle(left)
        while (now := time.monotonic()) < ends:
            told = command.instances()
            if now >= publish_at:
                moments.publish()
                publish_at = now + publish_every
            ready = [name for name, each in told.items() if each["state"] == "ready" and name != "all-1"]
            if now >= kill_at and ready and left:
                os.kill(told[chance.choice(ready)]["pid"], left.pop())
                kill_at = now + kill_every * chance.uniform(0.5, 1.5)
            for name, pid in {"front": command.process.pid, "all-1": told["all-1"]["pid"]}.items():
                memory[name].append(megabytes(pid))
            time.sleep(0.2)
        load.wait()
        command.until_ready()
        moments.publish()
        last = list(moments.expected)[-1]
        ends = time.monotonic() + 30
        found = {}
        while len(found) < instances or set(found.values()) != {last}:  # the last moment arrives everywhere
            assert time.monotonic() < ends, (found, last)
            _, headers, _ = command.ask("/v1/models/ctr:predict", bodies[0])
            found[headers["x-instance"]] = int(headers["x-model-version"]), int(headers["x-model-update"])
        told = command.instances()
        command.process.send_signal(signal.SIGTERM)
        assert "every request was answered" in command.process.stdout.read() and command.process.wait(60) == 0
    finally:
        command.process.kill()
        moments.publisher.close()
    return load, moments, memory, told


def require_right(load, moments):
    """That nothing was lost, and each answer is that of its moment."""
    assert [each for each in load.answers if each.status != 200] == [] and len(load.answers) == load.asked
    for each in load.answers:
        found = np.array(json.loads(each.body)["outputs"])
        np.testing.assert_allclose(found, moments.expected[each.moment][each.which], rtol=0, atol=TOLERANCE)
    assert {version for version, _ in moments.expected} - {list(moments.expected)[-1][0]} <= {a.moment[0] for a in load.answers}


def test_an_instance_is_killed_while_a_model_is_updated(small_batches, tmp_path):
    seen = {"instances": 2, "rate": 20.0, "seconds": 6.0, "publish_every": 1.0, "kill_every": 4.0}
    load, moments, _, told = soak(small_batches, tmp_path, **seen, kinds=(signal.SIGKILL,), seed=1)
    require_right(load, moments)
    assert told["all-1"]["starts"] == 1 and told["all-2"]["starts"] == 2
    assert len({each.moment for each in load.answers}) > 2


@pytest.mark.long
@pytest.mark.timeout(900)
def test_minutes_of_updates_and_crashes_lose_nothing_and_memory_stays(small_batches, tmp_path):
    kinds = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
    seen = {"instances": 3, "rate": 25.0, "seconds": 180.0, "publish_every": 2.0, "kill_every": 10.0}
    load, moments, memory, told = soak(small_batches, tmp_path, **seen, kinds=kinds, seed=2)
    require_right(load, moments)
    restarts = sum(each["starts"] - 1 for each in told.values())
    assert restarts >= 8 and told["all-1"]["starts"] == 1
    slowest = sorted(each.seconds for each in load.answers)
    counts = f"{len(load.answers)} answers, {len(moments.expected)} moments, {restarts} restarts"
    print(f"{counts}; p50 {slowest[len(slowest) // 2]:.3f} s, longest {slowest[-1]:.1f}")
    for name, found in memory.items():
        settled = found[int(SETTLED * len(found)) :]
        half = len(settled) // 2
        before, after = np.median(settled[:half]), np.median(settled[half:])
        print(f"{name}: {before:.0f} MB, later {after:.0f}")
        assert after < 1.03 * before + 4, f"{name} grows: {before:.0f} to {after:.0f} MB"

"""The shipped HAProxy file before real servers: updates are published and instances die, while requests come at random moments.

Every request is answered, each answer is of one published moment, and memory stays what it was.
"""

import json
import os
import random
import re
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from proxied import Proxied, needs_haproxy, until

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))  # trainers, wire_requests, served
from served import TOLERANCE, first, probabilities
from trainers import Trainer, published
from wire_requests import by_columns

from ctrlab.load import arrivals
from ctrlab.profiling.timing import now
from ctrlab.serving import inputs
from ctrlab.serving.versions import versions

pytestmark = needs_haproxy
TOKEN = "a-token"
CLIENTS = 64
HANGS_SECONDS = 3.0
"""After which one that hangs is killed, as systemd's watchdog does."""
SETTLED = 0.5
"""The fraction of the time after which memory no longer grows."""


@dataclass
class Came:
    """An answer, and when it came."""

    status: int
    moment: tuple[int, int]
    instance: str
    which: int
    seconds: float
    body: bytes


class Load:
    """Requests at random moments, whether or not others were answered, in threads."""

    def __init__(self, fleet, bodies, users, rate, seconds, seed):
        self.answers: list[Came] = []
        self.asked = 0
        self._fleet, self._bodies, self._users = fleet, bodies, users
        self._due = arrivals.poisson(rate, seconds, seed)
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def wait(self):
        self._thread.join()

    def _send(self):
        with ThreadPoolExecutor(CLIENTS) as pool:
            for number, due in arrivals.paced(self._due):
                self.asked += 1
                pool.submit(self._ask, number, due)

    def _ask(self, number, due):
        which, user = number % len(self._bodies), self._users[number % len(self._users)]
        found = self._fleet.ask(self._bodies[which], user=user, token=TOKEN)
        took = now() - due
        self.answers.append(Came(found.status, moment_of(found), instance_of(found), which, took, found.body))


def moment_of(answer):
    """(version, update)."""
    return tuple(int(answer.headers.get(b"x-model-" + name, 0)) for name in (b"version", b"update"))


def instance_of(answer):
    return answer.headers.get(b"x-instance", b"").decode()


def megabytes(pid):
    """Megabytes of memory that a process does not share."""
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


def soak(small_batches, folder, *, names, users, rate, seconds, publish_every, kill_every, kinds, seed):
    """Runs it. Returns the answers, what was published, {process: megabytes each second}, and {instance: its processes}.

    Args:
        kinds: signals that an instance gets every so many seconds, in random order; the first instance gets none.
        users: who ask, in turns.
    """
    chance = random.Random(seed)
    trainer = Trainer(small_batches, "dlrm", embedding="variable")
    requests = [first(features, 20) for features, _ in trainer.batches[:4]]
    columns = inputs.inputs_of(trainer.model, "text")
    bodies = [by_columns(inputs.to_tensors(each, columns, trainer.model)) for each in requests]
    models = folder / "models"
    models.mkdir()
    moments = Moments(trainer, models / "ctr", requests)
    moments.publish()
    environment = os.environ | {"CTRLAB_TOKEN": TOKEN, "TF_CPP_MIN_LOG_LEVEL": "3"}

    def command(port):
        return [sys.executable, "-m", "ctrlab", "serve", str(models), "--port", str(port), "--grpc-port", "0"]

    with Proxied(folder, command, names, env=environment) as fleet:
        fleet.until_ready()
        memory = {"front": [], names[0]: []}
        load = Load(fleet, bodies, users, rate, seconds, seed)
        ends, publish_at, kill_at = time.monotonic() + seconds, 0.0, time.monotonic() + kill_every / 2
        left = [kind for kind in kinds for _ in range(round(seconds / kill_every / len(kinds)))]
        chance.shuffle(left)
        while (now := time.monotonic()) < ends:
            if now >= publish_at:
                moments.publish()
                publish_at = now + publish_every
            ready = [name for name in names[1:] if fleet.ready(fleet.ports[name])]
            if now >= kill_at and ready and left:
                strike(fleet.instances[chance.choice(ready)].process, left.pop())
                kill_at = now + kill_every * chance.uniform(0.5, 1.5)
            for name, pid in {"front": fleet.proxy.pid, names[0]: fleet.instances[names[0]].process.pid}.items():
                memory[name].append(megabytes(pid))
            time.sleep(0.2)
        load.wait()
        fleet.until_ready()
        moments.publish()
        last = list(moments.expected)[-1]

        def arrived():  # the last moment, everywhere
            found = [moment_of(fleet.ask(bodies[0], token=TOKEN, port=port)) for port in fleet.ports.values()]
            return set(found) == {last}

        until(arrived)
        moments.publisher.close()
        return load, moments, memory, {name: each.starts for name, each in fleet.instances.items()}


def strike(process, kind):
    """Sends a signal to an instance; one that hangs from then on is killed a while later."""
    process.send_signal(kind)
    if kind == signal.SIGSTOP:
        threading.Timer(HANGS_SECONDS, process.kill).start()


def require_right(load, moments):
    """Requires that no request was lost, and that each answer is right for its moment."""
    assert [each for each in load.answers if each.status != 200] == [] and len(load.answers) == load.asked
    for each in load.answers:
        found = np.array(json.loads(each.body)["outputs"])
        np.testing.assert_allclose(found, moments.expected[each.moment][each.which], rtol=0, atol=TOLERANCE)
    assert {version for version, _ in moments.expected} - {list(moments.expected)[-1][0]} <= {a.moment[0] for a in load.answers}


def test_an_instance_is_killed_while_a_model_is_updated(small_batches, tmp_path):
    seen = {"names": ("control-1", "control-2"), "users": ["A1"], "rate": 20.0, "seconds": 6.0}
    often = {"publish_every": 1.0, "kill_every": 4.0}
    load, moments, _, starts = soak(small_batches, tmp_path, **seen, **often, kinds=(signal.SIGKILL,), seed=1)
    require_right(load, moments)
    assert starts == {"control-1": 1, "control-2": 2}
    assert len({each.moment for each in load.answers}) > 2


@pytest.mark.long
@pytest.mark.timeout(900)
def test_minutes_of_updates_and_crashes_lose_nothing_and_memory_stays(small_batches, tmp_path):
    kinds = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
    seen = {"names": ("control-1", "control-2", "new-1", "new-2"), "users": [f"A{n}" for n in range(20)], "rate": 25.0}
    often = {"seconds": 180.0, "publish_every": 2.0, "kill_every": 10.0}
    load, moments, memory, starts = soak(small_batches, tmp_path, **seen, **often, kinds=kinds, seed=2)
    require_right(load, moments)
    restarts = sum(starts.values()) - len(starts)
    assert restarts >= 8 and starts["control-1"] == 1
    slowest = sorted(each.seconds for each in load.answers)
    counts = f"{len(load.answers)} answers, {len(moments.expected)} moments, {restarts} restarts"
    print(f"{counts}; p50 {slowest[len(slowest) // 2]:.3f} s, longest {slowest[-1]:.1f}")
    for name, found in memory.items():
        settled = found[int(SETTLED * len(found)) :]
        half = len(settled) // 2
        before, after = np.median(settled[:half]), np.median(settled[half:])
        print(f"{name}: {before:.0f} MB, later {after:.0f}")
        assert after < 1.03 * before + 4, f"{name} grows: {before:.0f} to {after:.0f} MB"

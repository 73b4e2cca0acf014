"""Fleets whose instances are `fake_instance.py`, and how clients reach them."""

import contextlib
import http.client
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from ctrlab.fleet.instances.plan import Plan
from ctrlab.fleet.instances.run import Fleet, running
from ctrlab.fleet.instances.supervisor import Patience

FAKE = Path(__file__).with_name("fake_instance.py")
QUICK = Patience(start=10.0, answer=1.0, drain=10.0, backoff=0.05, most_backoff=0.4)
PREDICT = "/v1/models/ctr:predict"


@dataclass(frozen=True)
class Fakes(Plan):
    def command(self, instance):
        return [sys.executable, str(FAKE), str(self.arms[instance.arm])]


def plan(folder, instances=2, patience=QUICK, **options) -> Fakes:
    folder.mkdir(exist_ok=True)
    return Fakes({"all": folder}, instances=instances, token="a-token", patience=patience, **options)


def behave(folder, **starts):
    """`behave(folder, all={...}, s1={...})`: of all starts, and of the first."""
    folder.mkdir(exist_ok=True)
    text = json.dumps({"*" if name == "all" else name[1:]: does for name, does in starts.items()})
    (folder / "behaviour.json").write_text(text)


@contextlib.contextmanager
def fleet_of(made: Plan):
    """A fleet that runs; afterwards none of its processes is there."""
    fleet = Fleet(made)
    pids = set()
    try:
        with running(fleet) as found:
            yield found
            pids |= {instance.pid for instance in fleet.instances}
    finally:
        pids |= {instance.pid for instance in fleet.instances} - {0}
        assert [pid for pid in pids if alive(pid)] == []


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def ask(port: int, body="", path=PREDICT, method="POST", token="a-token", **headers):
    """(status, headers, body)."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, given | ({"Authorization": f"Bearer {token}"} if token else {}))
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


def until(holds, seconds=20.0):
    """Waits until it holds."""
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, "it did not come to be"
        time.sleep(0.01)


def states(found) -> list[str]:
    return [each["state"] for each in found.told().values()]

"""The place of a process among the workers of a training, as given by `TF_CONFIG`."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass

from ctrlab.errors import CtrlabError

CONFIG = "TF_CONFIG"
HEARTBEAT_SECONDS = 20
"""Seconds without a heartbeat after which a worker counts as lost."""


def threads_of(number: int) -> dict[str, str]:
    """The environment variables that set the number of threads of each of TensorFlow's pools. Its default is the number of the
    machine's CPUs.
    """
    return dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), str(number))


@dataclass(frozen=True)
class Place:
    """The addresses of all workers, host:port, and the index of this process among them."""

    addresses: tuple[str, ...]
    index: int

    def config(self) -> dict[str, str]:
        """The environment variable `TF_CONFIG` that describes this place."""
        cluster, task = {"worker": list(self.addresses)}, {"type": "worker", "index": self.index}
        return {CONFIG: json.dumps({"cluster": cluster, "task": task})}


def given_place() -> Place | None:
    """The place that `TF_CONFIG` gives this process, as `ctrlab train --workers` and clusters set it; None without one.

    Raises:
        CtrlabError: it does not contain the workers and this one's place, or an address has no port.
    """
    given = os.environ.get(CONFIG)
    if not given:
        return None
    try:
        config = json.loads(given)
        cluster, task = config["cluster"], config["task"]
        workers, index = cluster["worker"], task["index"]
        good = set(cluster) == {"worker"} and task["type"] == "worker"
        good &= isinstance(workers, list) and len({*workers}) == len(workers)
        good &= re.fullmatch("[0-9]{1,9}", str(index)) is not None and int(index) < len(workers)  # some launchers write text
    except (ValueError, KeyError, TypeError, RecursionError):
        good = False
    if not good:
        raise CtrlabError(
            f'{CONFIG} must be like {{"cluster": {{"worker": ["host:port", ...]}}, "task": {{"type": "worker", "index": 0}}}}, '
            f"each worker with its own address, the index a whole number below their number; received {given!r:.200}."
        )
    for address in workers:
        _require_port(address)
    return Place(tuple(workers), int(index))


def _require_port(address: object) -> None:
    found = re.fullmatch(r"\S+:([0-9]{1,5})", address) if isinstance(address, str) else None
    if not found or not 1 <= int(found[1]) <= 65_535:
        raise CtrlabError(
            f"An address in {CONFIG} is a host and its port, from 1 to 65535, such as a:2222; received {address!r:.100}."
        )

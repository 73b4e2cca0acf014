"""The place of a process among the workers of a training, as `TF_CONFIG` says it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

from ctrlab.errors import CtrlabError

CONFIG = "TF_CONFIG"


@dataclass(frozen=True)
class Place:
    """The addresses of all workers, host:port, and which of them this process is."""

    addresses: tuple[str, ...]
    index: int

    def config(self) -> dict[str, str]:
        """The environment variable that says so."""
        return config_of(self.addresses, self.index)


def config_of(addresses: Sequence[str], index: int | str) -> dict[str, str]:
    """The environment variable of a worker. The index may be a text that something else replaces by it."""
    cluster, task = {"worker": list(addresses)}, {"type": "worker", "index": index}
    return {CONFIG: json.dumps({"cluster": cluster, "task": task})}


def given_place() -> Place | None:
    """The place that `TF_CONFIG` gives this process, as `ctrlab train --workers` and clusters set it; None without one.

    Raises:
        CtrlabError: it does not say the workers and this one's place.
    """
    given = os.environ.get(CONFIG)
    if not given:
        return None
    try:
        config = json.loads(given)
        cluster, task = config["cluster"], config["task"]
        workers, index = tuple(cluster["worker"]), int(task["index"])
        good = set(cluster) == {"worker"} and task["type"] == "worker" and 0 <= index < len(workers)
        good &= all(isinstance(address, str) and ":" in address for address in workers) and len({*workers}) == len(workers)
    except (ValueError, KeyError, TypeError):
        good = False
    if not good:
        raise CtrlabError(
            f'{CONFIG} must be like {{"cluster": {{"worker": ["host:port", ...]}}, "task": {{"type": "worker", "index": 0}}}}, '
            f"each worker with its own address; received {given!r:.200}."
        )
    return Place(workers, index)

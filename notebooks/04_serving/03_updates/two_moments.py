"""A model of two parts whose weights show the update that wrote them. So each answer shows whether it mixes two moments.

It answers in Python's threads while another thread updates it again and again.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

READS, BETWEEN, PREPARES, CHANGES = 0.0005, 0.001, 0.003, 0.0002  # seconds


class NoGate:
    """A gate at which nobody waits."""

    def enter(self) -> None:
        pass

    leave = close = open = enter


class OneLock:
    """A gate that lets in one thread at a time, like a plain lock."""

    def __init__(self):
        lock = threading.Lock()
        self.enter = self.close = lock.acquire
        self.leave = self.open = lock.release


@dataclass
class Served:
    """The numbers of answers, of answers that mixed two moments, and of updates meanwhile."""

    answers: int = 0
    mixed: int = 0
    updates: int = 0


def serve(gate, *, outside: bool = True, clients: int = 4, requests: int = 10) -> Served:
    """Runs clients that each ask this number of times.

    Args:
        gate: has `enter` and `leave` for requests, `close` and `open` for updates.
        outside: whether an update is prepared before it closes the gate.
    """
    table, dense, found, ends = [0], [0], Served(), threading.Event()

    def request() -> bool:
        gate.enter()
        try:
            read = table[0]
            time.sleep(READS)  # the table's rows go through the layers
            return read != dense[0]
        finally:
            gate.leave()

    def update() -> None:
        while not ends.wait(BETWEEN):
            if outside:
                time.sleep(PREPARES)
            gate.close()
            if not outside:
                time.sleep(PREPARES)
            table[0] += 1
            time.sleep(CHANGES)
            dense[0] += 1
            gate.open()
            found.updates += 1

    updater = threading.Thread(target=update, daemon=True)
    updater.start()
    with ThreadPoolExecutor(clients) as pool:
        answers = list(pool.map(lambda _: [request() for _ in range(requests)], range(clients)))
    ends.set()
    updater.join()
    found.answers, found.mixed = clients * requests, sum(map(sum, answers))
    return found

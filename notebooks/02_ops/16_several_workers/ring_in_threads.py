"""A ring of workers that are threads of the notebook, of which one runs at a time, so that endless waiting is noticed at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from ctrlab.lessons.check import CheckFailed, require_close
from ctrlab.lessons.interleaving import Stuck, Threads


class Line:
    """A worker's connections in a ring: to the next worker, and from the one before.

    Attributes:
        sent: number of bytes sent so far.
    """

    def __init__(self, put: Callable[[np.ndarray], object], get: Callable[[], np.ndarray]):
        self._put, self._get, self.sent = put, get, 0

    def send(self, numbers: np.ndarray) -> None:
        """Sends an array; it arrives later."""
        self.sent += numbers.nbytes
        self._put(numbers)

    def receive(self) -> np.ndarray:
        """Waits for the next array."""
        return self._get()


def in_threads(work: Callable[[int, Line], np.ndarray], workers: int) -> tuple[list, list[int]]:
    """Runs `work(worker, line)` of each worker of a ring in threads. Returns their results, and the bytes that each has sent. An
    error of a worker ends all of them.

    Raises:
        CheckFailed: the workers wait for each other forever, or one never ends.
    """
    found: dict[int, np.ndarray] = {}
    with Threads() as threads:
        boxes, condition = [deque() for _ in range(workers)], threads.condition()

        def line(me: int) -> Line:
            def put(numbers: np.ndarray) -> None:
                with condition:
                    boxes[(me + 1) % workers].append(numbers.copy())  # as a network does: who receives may change it
                    condition.notify_all()

            def get() -> np.ndarray:
                with condition:
                    condition.wait_for(lambda: boxes[me])
                    return boxes[me].popleft()

            return Line(put, get)

        lines = [line(me) for me in range(workers)]
        for me in range(workers):
            threads.start(f"worker {me}", lambda me=me: found.update({me: work(me, lines[me])}))
        run_to_the_end(threads, lambda ready: ready[0], f"{workers} workers")
    return [found[me] for me in range(workers)], [line.sent for line in lines]


def run_to_the_end(threads: Threads, choose: Callable[[Sequence[str]], str], case: str) -> None:
    """Lets the workers run until all have ended; `choose(names)` returns the worker that runs next. Errors of a worker are passed
    on.

    Raises:
        CheckFailed: the workers wait for each other forever, or one never ends.
    """
    while threads.unfinished():
        ready = threads.can_go()
        if not ready:
            raise CheckFailed(
                f"Workers do not wait for each other for ever; here {case}.",
                expected="an end",
                received=f"{', '.join(threads.unfinished())} wait to receive, and nothing is on the way to them",
                next_step="send first, then receive; W - 1 rounds, so W - 1 of each",
            )
        try:
            threads.go(choose(ready))
        except Stuck as stuck:
            raise CheckFailed(
                f"The function comes to an end; here {case}.",
                expected="an answer",
                received=f"{stuck} goes on and on",
                next_step="there are W - 1 rounds, where W = len(chunks)",
            ) from None


def require_sums(found: Sequence[np.ndarray], gradients: np.ndarray) -> None:
    """Requires that after an all-reduce each worker has the sum of all `gradients`, float32 [W, n].

    Raises:
        CheckFailed: a worker has another result.
    """
    for me, each in enumerate(found):
        case = f"worker {me} of {len(gradients)} after the all-reduce"
        try:
            require_close(each, gradients.sum(0), case=case, next_step="run check 1 again, then this cell")
        except CheckFailed as refused:
            refused.tell()
            raise

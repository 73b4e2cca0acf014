"""Checks of 02_ops/16_several_workers: (1) half of a ring all-reduce, (2) the statistics of the whole batch; no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from ctrlab.lessons.topics.several_workers.ring_in_threads import run_to_the_end

from ctrlab.lessons.budget import FREE, MOST_OPS, Budget
from ctrlab.lessons.check import CheckFailed, call, counted, require_close
from ctrlab.lessons.exercise import Exercise, tensors
from ctrlab.lessons.interleaving import Condition, Threads
from ctrlab.lessons.limits import Stated, stated

ROUND = "in each round: send the sum that you have, receive another one, add your own chunk of that number to it"
ORDER = "worker w begins with its own chunk w: whose sum of which chunk reaches it in the first round? Numbers are mod W"
NO_LOOP = "counts[:, None] has a share per row of [W, n]; tf.reduce_sum(..., 0) adds the rows of all workers"
SHARES = "weigh each worker's mean by its share of the rows, counts / sum(counts)"
KINDS = "chunks are float32 arrays; messages and the result are, too. `.astype(np.float32)` makes one of any array"
ROUNDED = "it is nearly right: of which type are the chunks that you send, and the sum?"
WHOLE = "return the sum itself: in the lesson, losses were divided by the rows of all workers before"
BETWEEN = "in the example, 0.5 is within the workers and 12 between them: work out both by hand"


LARGE = 100
"""With means this large, rounding exceeds the tolerance of a gradient, which contains the mean as a factor."""


class Ring:
    """A worker's end of a ring in which only one thread runs at a time: it sends arrays, and receives those of the worker before.

    Attributes:
        sent: the arrays that were sent, as they were then.
    """

    def __init__(self, me: int, boxes: list[deque], condition: Condition):
        self._me, self._boxes, self._condition, self.sent = me, boxes, condition, []

    def __getstate__(self) -> dict:
        return {}  # threads are no part of a question that is remembered

    def send(self, numbers: np.ndarray) -> None:
        _require_kind(numbers, "Each message is a float32 array, as the chunks are.", f"worker {self._me}")
        self.sent.append(numbers.copy())
        if len(self.sent) == len(self._boxes):
            raise _too_much(self.sent, self._me, len(self._boxes), "at most ", "the ring")
        with self._condition:
            self._boxes[(self._me + 1) % len(self._boxes)].append((numbers, self.sent[-1]))
            self._condition.notify_all()

    def receive(self) -> np.ndarray:
        with self._condition:
            while not self._boxes[self._me]:
                self._condition.wait()
            numbers, before = self._boxes[self._me].popleft()
        if not np.array_equal(numbers, before, equal_nan=True):
            raise CheckFailed(
                "What was sent is left as it is: the network may still read it.",
                expected=np.array2string(before, threshold=6),
                received=np.array2string(numbers, threshold=6),
                next_step="`a = a + b` makes a new array, where `a += b` changes the one that was sent",
            )
        return before.copy()


@stated("floats within 0.00001 of the right ones, by norm")
def check_reduce_scatter(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `reduce_scatter(chunks, me, ring)` -> the sum of chunk (me + 1) mod W over all workers."""
    call(lambda: None, case="nothing")  # the first call imports TensorFlow, which takes longer than a thread may
    for case, chunks in _gradients(rng):
        workers = len(chunks)
        with Threads() as threads:
            boxes, condition = [deque() for _ in range(workers)], threads.condition()
            rings = [Ring(me, boxes, condition) for me in range(workers)]
            found: dict[int, object] = {}
            for me in range(workers):
                threads.start(f"worker {me}", _work(answer, chunks[me], me, rings[me], found, case))
            run_to_the_end(threads, lambda ready: str(rng.choice(ready)), case)
        for me in range(workers):
            _require_sent(rings[me].sent, chunks[me], me, case)
        if any(boxes):
            raise CheckFailed(
                f"All that is sent is received; here {case}.",
                expected="no array left on the way",
                received=f"{sum(map(len, boxes))} left",
                next_step=ROUND,
            )
        for me in range(workers):
            number = (me + 1) % workers
            right = np.sum([each[number].astype(np.float64) for each in chunks], 0).astype(np.float32)
            _require_kind(found[me], f"The result is a float32 array, as the chunks are; here {case}.", f"worker {me}")
            hint = _hint(found[me], right, workers)
            require_close(found[me], right, case=f"{case}, worker {me}, whose sum is that of chunk {number}", next_step=hint)


def _work(answer: Callable, chunks: list[np.ndarray], me: int, ring: Ring, found: dict, case: str) -> Callable[[], None]:
    def asked(given: list[np.ndarray], me: int, ring: Ring) -> object:
        result = answer(given, me, ring)
        for number, (old, new) in enumerate(zip(chunks, given)):
            if not np.array_equal(old, new):
                raise CheckFailed(
                    f"The chunks stay as they are; here {case}.",
                    expected=np.array2string(old, threshold=6),
                    received=np.array2string(np.asarray(new), threshold=6),
                    index=f"chunk {number} of worker {me}",
                    next_step="`a = a + b` makes a new array, where `a += b` changes the chunk",
                )
        return result

    def work() -> None:
        found[me] = call(asked, [each.copy() for each in chunks], me, ring, case=f"{case}, worker {me}", next_step=ROUND)

    return work


def _require_kind(found: object, rule: str, index: str) -> None:
    """Requires a float32 array."""
    if not isinstance(found, np.ndarray) or found.dtype != np.float32:
        what = f"an array of {found.dtype}" if isinstance(found, np.ndarray) else type(found).__name__
        raise CheckFailed(rule, expected="an array of float32", received=what, index=index, next_step=KINDS)


def _hint(found: np.ndarray, right: np.ndarray, workers: int) -> str:
    if found.shape == right.shape and np.linalg.norm(found - right) <= 0.01 * np.linalg.norm(right):
        return ROUNDED
    if workers == 1:
        return "one worker has its own chunk, and sends nothing"
    mean = right / workers
    is_mean = found.shape == right.shape and right.any() and np.allclose(found, mean, rtol=1e-5, atol=1e-5 * np.abs(mean).max())
    return WHOLE if is_mean else ORDER


def _require_sent(sent: list[np.ndarray], chunks: list[np.ndarray], me: int, case: str) -> None:
    workers = len(chunks)
    most = sum(each.nbytes for each in chunks) - chunks[(me + 1) % workers].nbytes
    if len(sent) != workers - 1 or sum(each.nbytes for each in sent) > most:
        raise _too_much(sent, me, workers, "", case, f", {most} bytes")


def _too_much(sent: list[np.ndarray], me: int, workers: int, at_most: str, case: str, more: str = "") -> CheckFailed:
    return CheckFailed(
        f"Budget: each worker sends W - 1 chunks, and never the one that it ends with; here {case}.",
        expected=f"{at_most}{counted(workers - 1, 'message')}{more}",
        received=f"{counted(len(sent), 'message')}, {sum(each.nbytes for each in sent)} bytes",
        index=f"worker {me} of {workers}",
        next_step=ORDER
        if len(sent) == workers - 1
        else f"{counted(workers, 'worker')} take{'s' * (workers == 1)} {counted(workers - 1, 'round')}; {ROUND}",
    )


def _gradients(rng: np.random.Generator) -> Iterator[tuple[str, list[list[np.ndarray]]]]:
    """The cases: (description, the chunks of each worker)."""

    def drawn(workers: int, size: int, unit: float = 1.0) -> list[list[np.ndarray]]:
        # Whole numbers of units have exact sums, in any order.
        return [np.array_split(np.float32(unit * rng.integers(-9_999, 9_999, size)), workers) for _ in range(workers)]

    yield "one worker", drawn(1, 5)
    yield "two workers", drawn(2, 6)
    yield "three workers, chunks of different sizes", drawn(3, 11)
    yield "four workers, most chunks empty", drawn(4, 1)
    yield "two workers without a number", drawn(2, 0)
    yield "eight workers", drawn(8, 40)
    yield "tiny gradients", drawn(3, 9, 2.0**-70)
    same = np.array_split(rng.normal(size=12).astype(np.float32), 4)
    yield "workers whose gradients cancel out", [[(-1) ** w * each for each in same] for w in range(4)]
    for _ in range(12):
        workers = int(rng.integers(2, 7))
        yield f"{workers} workers by chance", drawn(workers, int(rng.integers(0, 30)))


FEW_OPS = (
    f"at most {MOST_OPS} ops, as many for 4 workers and 16 columns as for 2 and 4; no tensor above [W, n]; {FREE}; "
    "no loop or branch in the graph"
)


def require_few_ops(answer: Callable, rng: np.random.Generator) -> None:
    """Refuses loops that Python unrolls: they take more ops for more workers or columns."""
    import tensorflow as tf

    ops = []
    for counts, columns in (([40, 1, 7, 0], 16), ([3, 0], 4)):
        given = [tf.constant(each, tf.float32) for each in _drawn(rng, counts, columns)]
        budget = Budget("a few ops on [W, n]", largest_elements=len(counts) * columns)
        ops.append(budget.enforce(answer, *given, next_step=NO_LOOP).ops.total())
    if ops[0] != ops[1]:
        raise CheckFailed(
            "Budget: no loop over workers or columns, in Python neither.",
            expected="as many ops for 4 workers and 16 columns as for 2 workers and 4 columns",
            received=f"{ops[0]} and {ops[1]} ops",
            next_step=NO_LOOP,
        )


def reference_joined(counts, means, variances) -> tuple[np.ndarray, np.ndarray]:
    """The definition, float64."""
    share = np.asarray(counts, np.float64)[:, None] / np.sum(counts)
    mean = (share * means).sum(0)
    return mean, (share * (np.asarray(variances, np.float64) + (means - mean) ** 2)).sum(0)


def _require_near(received: object, expected: np.ndarray, terms: np.ndarray, case: str, next_step: str) -> None:
    """Requires that a sum is right within 1e-5 of its terms. If the terms cancel, the sum is small, but their rounding error
    is not.
    """
    larger = np.linalg.norm(terms) / max(np.linalg.norm(expected), 1e-30)
    require_close(received, expected.astype(np.float32), case=case, next_step=next_step, rtol=1e-5 * max(1.0, larger))


def near(terms: Callable[..., np.ndarray], next_step: str) -> Callable:
    """A comparison of a sum whose tolerance is relative to its terms, question -> [n]."""

    def compare(received: object, expected: np.ndarray, case: str, question: Sequence) -> None:
        _require_near(received, expected, terms(*question), case, next_step)

    return compare


def require_gradients(answer: Callable, rng: np.random.Generator) -> None:
    """Checks the gradients that training needs, on means that are small enough for their rounding to be below a gradient."""
    for case, *question in _statistics(rng):
        if np.abs(question[1]).max() < LARGE:
            _require_gradients(answer, tensors(*question), rng, case)


def _require_gradients(answer: Callable, given: Sequence, rng: np.random.Generator, case: str) -> None:
    """Compares the gradients of a randomly weighted sum of both results."""
    import tensorflow as tf

    counts, means, variances = given
    a, b = (tf.constant(rng.normal(size=means.shape[1]), tf.float32) for _ in range(2))

    def gradients(function: Callable) -> list:
        with tf.GradientTape() as tape:
            tape.watch([means, variances])
            mean, variance = function(counts, means, variances)
            loss = tf.reduce_sum(a * mean) + tf.reduce_sum(b * variance)
        return tape.gradient(loss, [means, variances])

    share = (counts / tf.reduce_sum(counts))[:, None]
    whole = tf.reduce_sum(share * means, 0)
    right = [share * (a + 2 * b * (means - whole)), share * b * tf.ones_like(means)]
    for name, expected, found in zip(("means", "variances"), right, gradients(answer)):
        if found is None:
            raise CheckFailed(
                f"Training goes backward through the statistics; here {case}.",
                expected=f"a gradient for {name}",
                received="no gradient",
                next_step="compute with tf.* ops on the tensors; no .numpy() and no tf.stop_gradient",
            )
        terms = tf.abs(a) + 2 * tf.abs(b) * tf.reduce_max(tf.abs(means)) if name == "means" else tf.abs(b)
        _require_near(found, expected.numpy(), terms.numpy(), f"the gradient for {name} of {case}", BETWEEN)


def _drawn(rng: np.random.Generator, counts: list[int], columns: int, centre: float = 0.0, spread: float = 1.0) -> tuple:
    """Counts, means and variances of rows that are drawn; a worker without rows has zeros."""
    rows = [centre + spread * rng.normal(size=(count, columns)) + spread * rng.normal() for count in counts]
    means = np.array([each.mean(0) if len(each) else np.zeros(columns) for each in rows], np.float32)
    variances = np.array([each.var(0) if len(each) else np.zeros(columns) for each in rows], np.float32)
    return np.array(counts, np.float32), means, variances


def _statistics(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """The cases: (description, counts, means, variances)."""
    yield "one worker", *_drawn(rng, [5], 3)
    yield "two halves", *_drawn(rng, [8, 8], 4)
    yield "three rows and one", *_drawn(rng, [3, 1], 4)
    yield "a worker without rows", *_drawn(rng, [6, 0, 3], 2)
    yield "only the last worker with rows", *_drawn(rng, [0, 0, 5], 2)
    yield "one row per worker", *_drawn(rng, [1, 1, 1], 3)
    yield "a column of large numbers that hardly differ", *_drawn(rng, [50, 30], 1, 1_000.0, 0.05)
    yield "workers that differ much, each without variance", np.float32([4, 2]), np.float32([[1], [7]]), np.float32([[0], [0]])
    for _ in range(6):
        counts = [int(rng.integers(0, 40)) for _ in range(int(rng.integers(1, 8)))]
        yield "shares by chance", *_drawn(rng, [*counts, 1], int(rng.integers(1, 6)))


CHECKS = {
    1: check_reduce_scatter,
    2: Exercise(
        asks="joined(counts, means, variances): float32 [W], [W, n], [W, n] -> mean, variance [n] over all rows",
        cases=_statistics,
        reference=reference_joined,
        given=tensors,
        compare={
            "mean": near(lambda counts, means, variances: np.abs(means).max(0), SHARES),
            "variance": near(lambda counts, means, variances: variances.max(0), BETWEEN),
        },
        limits=[
            require_gradients,
            Stated(FEW_OPS, require_few_ops),
            Stated("floats within 0.00001 of the larger terms, by norm"),
        ],
        run_it=SHARES,
    ),
}

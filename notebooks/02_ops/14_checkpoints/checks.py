"""Checks of 02_ops/14_checkpoints: (1) a save that does not stop the training, (2) the learner's own copying kernel."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

import numpy as np

from ctrlab.lessons.check import CheckFailed, call, require_close
from ctrlab.lessons.exercise import Close, Each, Exercise
from ctrlab.lessons.limits import stated

PATIENCE = 5.0  # seconds that a save may take to come back; it copies a few kilobytes
BUDGET_BYTES = 64 * 1024


class Disk:
    """A `write` that waits until it is released, and then records its arguments."""

    def __init__(self, fails: str = ""):
        self.go, self.written, self.fails = threading.Event(), None, fails

    def __call__(self, arrays: dict[str, np.ndarray]) -> None:
        self.go.wait(10 * PATIENCE)
        if self.fails:
            raise OSError(self.fails)
        self.written = {name: np.array(array) for name, array in arrays.items()}


def state(rng: np.random.Generator, rows: int = 40) -> dict[str, np.ndarray]:
    return {
        "table": rng.standard_normal((rows, 3)).astype(np.float32),
        "step": np.array(rng.integers(1, 1_000)),
        "bias": rng.standard_normal(7).astype(np.float32),
        "none": np.zeros((0, 4), np.float32),
    }


@stated(f"at most {BUDGET_BYTES:,} bytes of new memory for a state of some megabytes")
def check_save(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `save(sources, buffers, write, thread, pending)` -> the Future of the write."""
    with ThreadPoolExecutor(1) as thread:
        _snapshot_is_of_the_call(answer, rng, thread)
        _the_last_write_is_waited_for(answer, rng, thread)
        _what_failed_is_told(answer, rng, thread)
        _no_memory_is_taken(answer, rng, thread)


def _snapshot_is_of_the_call(answer, rng, thread) -> None:
    disk, sources = Disk(), state(rng)
    buffers = {name: np.zeros_like(array) for name, array in sources.items()}
    wanted = {name: array.copy() for name, array in sources.items()}
    future = _in_time(answer, sources, buffers, disk, thread, None, case="a disk that takes its time", release=disk.go)
    for array in sources.values():
        array[...] += 1  # the next step
    disk.go.set()
    _result(future)
    if disk.written is None or disk.written.keys() != wanted.keys():
        raise CheckFailed(
            "`write` is called in the thread with every array.",
            expected=sorted(wanted),
            received="nothing" if disk.written is None else sorted(disk.written),
            next_step="thread.submit(write, buffers)",
        )
    for name, array in wanted.items():
        require_close(
            disk.written[name], array, case=f"{name!r}, after the next step has changed it", next_step="write the copies"
        )


def _the_last_write_is_waited_for(answer, rng, thread) -> None:
    disk, sources, pending = Disk(), state(rng), Future()
    buffers = {name: np.zeros_like(array) for name, array in sources.items()}
    before = {name: array.copy() for name, array in buffers.items()}
    disk.go.set()
    called = _started(answer, sources, buffers, disk, thread, pending)
    came_back = wait([called], 0.2).done
    untouched = all(np.array_equal(buffers[name], before[name]) for name in before)
    pending.set_result(None)
    wait([called], PATIENCE)
    if came_back or not untouched:
        raise CheckFailed(
            "The buffers are left alone while the last save is still being written from them.",
            expected="the call waits for `pending`",
            received="it came back before" if came_back else "the buffers were changed before",
            next_step="pending.result() comes first",
        )
    _result(_outcome(called, "a last save that is done in the end"))


def _what_failed_is_told(answer, rng, thread) -> None:
    sources, pending = state(rng), Future()
    buffers = {name: np.zeros_like(array) for name, array in sources.items()}
    pending.set_exception(OSError("No space left on device"))
    disk = Disk()
    disk.go.set()
    try:
        answer(sources, buffers, disk, thread, pending)
    except OSError as error:
        if "No space" in str(error):
            return
    except NotImplementedError:
        raise
    except Exception as error:
        raise CheckFailed(
            "What the disk refused is told as it is.",
            expected="OSError: No space left on device",
            received=f"{type(error).__name__}: {error}",
            next_step="pending.result() raises it again; let it through",
        ) from error
    raise CheckFailed(
        "A save that failed is told by the next one, never passed over in silence.",
        expected="OSError: No space left on device",
        received="no error",
        next_step="pending.result() raises what went wrong in the thread",
    )


def _no_memory_is_taken(answer, rng, thread) -> None:
    disk, sources = Disk(), state(rng, rows=200_000)
    buffers = {name: np.zeros_like(array) for name, array in sources.items()}
    given = dict(buffers)
    thread.submit(int).result()  # the thread is there, so that its own memory is not counted
    tracemalloc.start()
    try:
        future = _in_time(answer, sources, buffers, disk, thread, None, case="a state of some megabytes", release=disk.go)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        disk.go.set()
    _result(future)
    if most > BUDGET_BYTES or any(buffers.get(name) is not array for name, array in given.items()):
        raise CheckFailed(
            "Budget: the copy goes into the buffers that are there; no new memory.",
            expected=f"at most {BUDGET_BYTES:,} bytes, and the same buffers",
            received=f"{most:,} bytes",
            next_step="write into the arrays that are there, and make no new ones",
        )


def _in_time(answer, sources, buffers, disk, thread, pending, *, case: str, release: threading.Event):
    """The call's result; a call that waits for the disk is a wrong answer."""
    called = _started(answer, sources, buffers, disk, thread, pending)
    if not wait([called], PATIENCE).done:
        release.set()
        raise CheckFailed(
            "The training goes on while the disk is busy.",
            expected="the call comes back before the file is written",
            received="it waited for the disk",
            next_step="submit `write` to the thread, and do not ask for its result",
        )
    return _outcome(called, case)


def _started(answer: Callable, *inputs) -> Future:
    """Starts the call in a separate thread, because it may never return."""
    called = Future()

    def run():
        try:
            called.set_result(answer(*inputs))
        except BaseException as error:
            called.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return called


def _outcome(called: Future, case: str):
    """The result of the call; an error is raised as that of a wrong answer."""
    return call(lambda: called.result(0), case=case)


def _result(future) -> None:
    if not isinstance(future, Future):
        raise CheckFailed(
            "The call gives back the Future of its write, so that the next one can wait for it.",
            expected="a Future",
            received=type(future).__name__,
            next_step="return thread.submit(...)",
        )
    future.result(PATIENCE)


def variables(rng: np.random.Generator) -> Iterator[tuple]:
    """The cases: (description, the value of each), float32: of one page, of a little more, of one number, of none, a scalar,
    of many.
    """
    for _ in range(3):
        shapes = [(1024,), (1025,), (1,), (0, 3), (), (int(rng.integers(1, 60_000)), 5)]
        yield f"shapes {shapes}", *(np.asarray(rng.standard_normal(shape), np.float32) for shape in shapes)


def in_place(answer: Callable) -> Callable:
    """Copies into existing memory, and returns the values of the variables afterwards: sources, targets."""
    import tensorflow as tf

    def asked(*values):
        sources = [tf.Variable(tf.constant(value)) for value in values]
        targets = [tf.Variable(tf.fill(value.shape, np.float32(np.nan))) for value in values]
        before = _addresses(targets)
        answer(sources, targets)
        if before != _addresses(targets):
            raise CheckFailed(
                "Budget: the copy goes into the memory that is there.",
                expected="the same addresses",
                received="others",
                next_step="does somebody still hold an older snapshot?",
            )
        return [source.numpy() for source in sources], [target.numpy() for target in targets]

    return asked


def _addresses(variables) -> list[int]:
    """The addresses of the variables' values; variables without values have none."""
    views = [np.asarray(memoryview(v.read_value())) for v in variables]
    return [view.ctypes.data for view in views if view.size]


CHECKS = {
    1: check_save,
    2: Exercise(
        asks="the op `answer(sources, targets)` with the learner's kernel inside, on variables",
        kernel="snapshot",
        cases=variables,
        reference=lambda *values: (values, values),
        ask=in_place,
        compare={
            "from": Each("variable", Close("`from` is only read", rtol=0)),
            "to": Each("variable", Close("is the last, shorter page copied?", rtol=0)),
        },
    ),
}

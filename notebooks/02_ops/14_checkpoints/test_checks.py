"""The checks of the checkpoint lesson against right answers and every kind of wrong one."""

from concurrent.futures import Future

import numpy as np
import pytest
from ctrlab.lessons.topics.checkpoints import checks
from solved import solved
from wrong_answers import named, require_told

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed
from ctrlab.ops import kernel_swap, snapshot

LESSON = "02_ops/14_checkpoints"
right = solved(LESSON, 1)


def no_op(sources, buffers, write, thread, pending):
    return None


def in_the_loop(sources, buffers, write, thread, pending):
    write(sources)
    future = Future()
    future.set_result(None)
    return future


def waits_for_its_own(sources, buffers, write, thread, pending):
    future = right(sources, buffers, write, thread, pending)
    future.result()
    return future


def without_a_copy(sources, buffers, write, thread, pending):
    if pending:
        pending.result()
    return thread.submit(write, sources)


def copies_in_the_thread(sources, buffers, write, thread, pending):
    if pending:
        pending.result()

    def work():
        write(dict(sources))

    return thread.submit(work)


def new_memory(sources, buffers, write, thread, pending):
    if pending:
        pending.result()
    return thread.submit(write, {name: source.copy() for name, source in sources.items()})


def new_buffers(sources, buffers, write, thread, pending):
    if pending:
        pending.result()
    for name, source in sources.items():
        buffers[name] = source.copy()
    return thread.submit(write, buffers)


def does_not_wait(sources, buffers, write, thread, pending):
    for name, source in sources.items():
        np.copyto(buffers[name], source)
    return thread.submit(write, buffers)


def waits_after_the_copy(sources, buffers, write, thread, pending):
    for name, source in sources.items():
        np.copyto(buffers[name], source)
    if pending:
        pending.result()
    return thread.submit(write, buffers)


def silent(sources, buffers, write, thread, pending):
    if pending:
        pending.exception()
    return right(sources, buffers, write, thread, None)


def another_error(sources, buffers, write, thread, pending):
    if pending and pending.exception():
        raise RuntimeError("something went wrong")
    return right(sources, buffers, write, thread, pending)


def returns_nothing(sources, buffers, write, thread, pending):
    right(sources, buffers, write, thread, pending)


def forgets_one(sources, buffers, write, thread, pending):
    return right({n: s for n, s in sources.items() if n != "bias"}, buffers, write, thread, pending)


def writes_a_part(sources, buffers, write, thread, pending):
    if pending:
        pending.result()
    return thread.submit(write, {"table": buffers["table"]})


def low_precision(sources, buffers, write, thread, pending):
    halves = {n: s.astype(np.float16).astype(s.dtype) if s.dtype == np.float32 else s for n, s in sources.items()}
    return right(halves, buffers, write, thread, pending)


def changes_the_state(sources, buffers, write, thread, pending):
    future = right(sources, buffers, write, thread, pending)
    sources["table"] *= 0
    np.copyto(buffers["table"], sources["table"])
    return future


class Replay:
    """Wrong: writes the values of the previous save."""

    last = None

    def __call__(self, sources, buffers, write, thread, pending):
        last, self.last = self.last, {n: s.copy() for n, s in sources.items()}
        usable = last if last and all(last[n].shape == s.shape for n, s in sources.items()) else sources
        return right(usable if last else {n: s * 0 for n, s in sources.items()}, buffers, write, thread, pending)


@pytest.mark.parametrize("seed", range(3))
def test_the_right_save_passes(seed):
    check.run(LESSON, 1, right, seed)


WRONG = [
    (no_op, "gives back the Future"),
    (in_the_loop, "while the disk is busy"),
    (waits_for_its_own, "while the disk is busy"),
    (without_a_copy, "after the next step"),
    (copies_in_the_thread, "after the next step"),
    (new_memory, "Budget"),
    (new_buffers, "Budget"),
    (does_not_wait, "left alone while the last save"),
    (waits_after_the_copy, "left alone while the last save"),
    (silent, "never passed over in silence"),
    (another_error, "told as it is"),
    (returns_nothing, "gives back the Future"),
    (forgets_one, "'bias'"),
    (writes_a_part, "with every array"),
    (low_precision, "'table'"),
    (changes_the_state, "'table'"),
    (Replay(), "'table'"),
]


@pytest.mark.parametrize(("answer", "says"), WRONG, ids=named)
def test_wrong_saves_fail(answer, says, monkeypatch):
    monkeypatch.setattr(checks, "PATIENCE", 0.5)
    with pytest.raises(CheckFailed) as refused:
        check.run(LESSON, 1, answer, 0)
    require_told(refused.value, says)


KERNEL = """
CTRLAB_EXPORT void ctrlab_snapshot(const ctrlab::CopyPiece* pieces, int64_t count, const ctrlab::ParallelFor* parallel_for) {
  (*parallel_for)(count, 100000, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const char* from = static_cast<const char*>(pieces[p].from);
      char* to = static_cast<char*>(pieces[p].to);
      for (int64_t i = 0; i < BYTES; ++i) to[i] = from[i];
    }
  });
}
"""


@pytest.mark.parametrize("wrong", ["pieces[p].bytes + 1", "pieces[p].bytes / 4096 * 4096"])
def test_wrong_kernels_are_not_swapped_in(wrong):
    with pytest.raises(kernel_swap.KernelError):
        kernel_swap.swap("snapshot", KERNEL.replace("BYTES", wrong))
    assert "snapshot" not in kernel_swap.swapped()


def test_a_kernel_of_ones_own():
    kernel_swap.swap("snapshot", KERNEL.replace("BYTES", "pieces[p].bytes"))
    try:
        check.run(LESSON, 2, snapshot.fused, 0)
    finally:
        kernel_swap.restore("snapshot")


def nothing(sources, targets):
    pass


def the_first_alone(sources, targets):
    snapshot.fused(sources[:1], targets[:1])


def with_new_memory(sources, targets):
    for source, target in zip(sources, targets):
        target.assign(source.read_value() + 0)


def rounded(sources, targets):
    snapshot.fused(sources, targets)
    targets[-1].assign(np.float32(np.float16(targets[-1])))


def drains_the_sources(sources, targets):
    snapshot.fused(sources, targets)
    sources[0].assign(sources[0] * 0)


@pytest.mark.parametrize("answer", [nothing, the_first_alone, with_new_memory, rounded, drains_the_sources])
def test_wrong_ops_fail(swapped, answer):
    with pytest.raises(CheckFailed):
        check.run(LESSON, 2, answer, 0)

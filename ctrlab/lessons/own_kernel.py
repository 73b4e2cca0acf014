"""Checks of a learner's kernel: it is swapped in, and the op runs on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ctrlab.lessons.check import CheckFailed
from ctrlab.ops import kernel_swap
from ctrlab.ops.kernel_swap import Counts


def on_own(kernel: str, answer: Callable) -> Callable:
    """Wraps `answer` so that its first call, which must not be on an empty batch, is checked to run the learner's `kernel`.

    Raises:
        CheckFailed: at once, if no kernel is swapped in; in the first call, if it does not run.
    """
    if kernel in kernel_swap.refused():
        raise CheckFailed(
            "The check judges your last %%kernel cell.",
            wrong="Your last %%kernel cell was refused.",
            expected="a cell that was taken",
            received="one that was refused" + ("; your earlier kernel is in use" if kernel in kernel_swap.swapped() else ""),
            cure="mend the cell, run it, then run this check again",
        )
    if kernel not in kernel_swap.swapped():
        raise CheckFailed(
            "The op runs on your kernel.",
            wrong="Our kernel is in place, and not yours.",
            expected="a kernel of yours in place",
            received="ours",
            cure="run the %%kernel cell; it is swapped in when it compiles and is right",
        )
    watched = False

    def watching(*inputs):
        nonlocal watched
        if watched:
            return answer(*inputs)
        results = []
        counts(kernel, lambda: results.append(answer(*inputs)))
        watched = True
        return results[0]

    return watching


def counts(kernel: str, call: Callable[[], object]) -> Counts:
    """Counts the work of the learner's `kernel` in `call`.

    Raises:
        CheckFailed: the kernel was not called.
    """
    found = kernel_swap.counts(kernel, call)
    if not found.blocks:
        raise CheckFailed(
            "The op runs on your kernel.",
            wrong=f"The answer did not call ctrlab_{kernel}.",
            expected=f"calls of ctrlab_{kernel}",
            received="none",
            cure="give the check the op's .fused: its other ways, .baseline and .best_stock, run on no kernel",
        )
    return found


def require_no_allocation(kernel: str, answer: Callable, questions: Sequence[tuple], *, sizes: str, next_step: str) -> None:
    """Raise if the learner's `kernel` allocates in any `answer(*question)`; `sizes` describes the questions, with small and
    large rows, because small ones may fit on the stack.
    """
    made = counts(kernel, lambda: [answer(*question) for question in questions]).allocations
    if made:
        raise CheckFailed(
            "Budget: nothing is allocated in the kernel.",
            wrong=f"The kernel allocates memory, {made} times for {sizes}.",
            expected="no call of malloc, new or mmap, and no container that grows",
            received=f"{made} for {sizes}",
            next_step=next_step,
        )

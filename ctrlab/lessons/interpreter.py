"""Budgets of plain Python: the interpreter's work for an answer that should leave the work to NumPy, and its memory."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable

from ctrlab.lessons.check import CheckFailed, call


def require_no_loop(function: Callable, *inputs, of: str, many: int, most: int) -> None:
    """Refuses an answer that processes its inputs one by one.

    Args:
        inputs: the arguments of the answer. of: the name of the `many` items in them: "keys".
        most: the most lines and calls of the interpreter.
    Raises:
        CheckFailed: the answer took more.
    """
    steps = call(lambda *question: interpreted(function, *question, most=most), *inputs, case=f"{many:,} {of}")
    if steps > most:
        raise CheckFailed(
            f"Budget: no loop over {of}, so NumPy does the work and not the interpreter.",
            wrong=f"Python ran more than {most:,} lines and calls for {many:,} {of}.",
            expected=f"at most {most:,} lines and calls of Python for {many:,} {of}",
            received="more",
            cure="use whole arrays",
        )


class _Enough(BaseException):
    """Raised when the limit is reached. It is not an Exception, because an answer might catch that in its loop."""


def interpreted(function: Callable, *inputs, most: int) -> int:
    """The number of lines and calls of Python in one call of `function`, which is ended after more than `most`."""
    steps, before = 0, sys.gettrace()

    def count(frame, event, argument):
        nonlocal steps
        steps += 1
        if steps > most:
            raise _Enough
        return count

    sys.settrace(count)
    try:
        function(*inputs)
    except _Enough:
        pass
    finally:
        sys.settrace(before)
    return steps


def peak_of(function: Callable, *inputs) -> int:
    """The most bytes that one call of `function` held at once."""
    tracemalloc.start()
    try:
        function(*inputs)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

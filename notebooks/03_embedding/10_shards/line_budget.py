"""A budget of lines that Python runs in an answer: a call of NumPy counts as one line, a loop as one per round."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable

from ctrlab.lessons.check import OURS, CheckFailed

NOT_COUNTED = (OURS, sysconfig.get_path("stdlib"), sysconfig.get_path("platlib"), sysconfig.get_path("purelib"), "<frozen")
"""Folders of modules whose lines do not count as part of the answer."""


def within(most: int, answer: Callable, *, rule: str, next_step: str) -> Callable:
    """The answer with a limit of lines per call; a loop is ended at the limit.

    Raises:
        CheckFailed, in a call: it runs more lines.
    """

    def counted(*inputs):
        left = most

        def line(frame, event, _):
            nonlocal left
            if event == "line":
                left -= 1
                if left < 0:
                    raise CheckFailed(
                        f"Budget: {rule}.",
                        expected=f"at most {most:,} lines that Python runs",
                        received=f"more: a loop, at line {frame.f_lineno} of your cell",
                        next_step=next_step,
                    )
            return line

        def enter(frame, event, arg):
            return None if frame.f_code.co_filename.startswith(NOT_COUNTED) else line(frame, "line", arg)

        before = sys.gettrace()
        sys.settrace(enter)
        try:
            return answer(*inputs)
        finally:
            sys.settrace(before)

    return counted

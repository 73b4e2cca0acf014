"""Judges answers: a wrong one always raises, and says where it is wrong and what to try; a right one prints one constant line.

A lesson's checks are the functions in the `CHECKS` table of its folder's checks.py. Each is called with the learner's function
and a random generator that is new every time, so that no answer can memorize its inputs.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path

import numpy as np

from ctrlab.errors import choose
from ctrlab.lessons import notebook, topics

SECONDS = 120
"""Seconds after which a check gives up: many times the time of a right answer on a slow machine."""
PATIENCE = 5
"""Further seconds after which the learner is told that an answer could not be ended."""
STUCK = "is still running, perhaps inside one op, which nothing can interrupt: restart the kernel (Kernel, Restart Kernel)."
FIRST_TRY = "hint 1 is below the check, and a second refusal says more"
"""What the first refusal of an answer says in place of its next step, behind what one can do with this case."""
FEW = 20
"""The most numbers of an input that a refusal shows."""
RUN_IT = "run it by hand on such an input and read the error"
OURS = str(Path(__file__).parents[1]) + os.sep

Check = Callable[[Callable, np.random.Generator], None]


class CheckFailed(AssertionError):
    """A wrong answer: what is wrong with it, the rule that it breaks, the expected and the received value, the place, and what to
    try.

    Args:
        rule: what holds for every right answer; "; here " and the case may follow, which the headline then names.
        wrong: what this answer does instead; by default what was received and expected.
        next_step: how to go on. It may say what a hint says, so the text has it only after `tell`.
        cure: how to go on where the check itself was used in a wrong way; the text always has it.
    """

    def __init__(
        self, rule: str, *, expected: object, received: object, wrong: str = "", next_step: str = "", cure: str = "", index=None
    ):
        super().__init__(rule)
        holds, here, case = rule.partition("; here ")
        self.rule, self.expected, self.received, self.index = holds + "." * bool(here), expected, received, index
        self.wrong = wrong or f"Received: {in_short(received)}. Expected: {in_short(expected)}{here}{case.rstrip('.')}."
        self.next_step, self._try, self.input = cure or next_step, cure, None

    def tell(self) -> None:
        """From now on the text has the next step."""
        self._try = self.next_step

    def __str__(self) -> str:
        by_hand = "work this case out by hand" if self.input else "choose a small input of this kind, and work it out by hand"
        first = "find the line that spends it" if self.rule.startswith("Budget") else by_hand
        rows = {"rule": self.rule, "input": self.input, "expected": self.expected, "received": self.received, "at": self.index}
        rows |= {"try": self._try or f"{first}; {FIRST_TRY}"}
        lines = [f"  {n:<9}{text}" for n, text in rows.items() if text is not None or n not in ("at", "input")]
        return "\n".join([self.wrong, *lines])

    def _render_traceback_(self) -> list[str]:
        """The text that Jupyter shows: the message, and those lines of the underlying error that lie in the learner's cells."""
        lines = [f"CheckFailed: {self}"]
        if self.__cause__ is not None:
            frames = [f for f in traceback.extract_tb(self.__cause__.__traceback__) if "ipykernel" in f.filename]
            lines += [f"  your line {frame.lineno}: {frame.line}" for frame in frames]
        return lines


class Unanswered(NotImplementedError):
    """A stub or a prediction that still waits for the learner: Jupyter shows its one line, and no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def checks_of(lesson: str) -> dict[int, Check]:
    """The checks of a lesson by exercise number, from the checks.py in its folder."""
    return topics.module(lesson, "checks").CHECKS


def run(lesson: str, exercise: int, answer: Callable, seed: int | None = None) -> None:
    """Judge `answer`; without a `seed` (tests give one) the inputs are new at every call.

    Raises:
        CheckFailed: the answer is wrong, or does not end within `SECONDS`. Unanswered: it is still the stub.
    """
    checks = checks_of(lesson)
    choose("exercise", repr(exercise), map(repr, checks))
    try:
        with _limited(SECONDS):
            checks[exercise](answer, np.random.default_rng(seed))
    except NotImplementedError as error:
        if said := _said_by_stub(error):
            raise Unanswered(said) from None
        raise _refusal(error, "one of the check's", RUN_IT) from error


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """A context that ends code which runs too long, between two steps of Python. If one op takes all the time, no signal can
    end it, and a message says so. Threads other than the main one get no signals, and have no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def give_up(_, frame):
        sys.settrace(lambda *_: None)  # without one the frames' own are not called
        while frame is not None and frame.f_code is not run.__code__:
            if not frame.f_code.co_filename.startswith(OURS):  # what we clean up is not ended halfway
                frame.f_trace = _give_up_again
            frame = frame.f_back
        raise _TimeIsUp

    began, handler, tracing = time.monotonic(), signal.signal(signal.SIGALRM, give_up), sys.gettrace()
    watch = threading.Timer(seconds + PATIENCE, print, [f"The answer was to end after {seconds:g} s, and {STUCK}"])
    watch.daemon = True
    watch.start()
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again each second, for what catches it twice
    try:
        yield
    except _TimeIsUp:
        raise CheckFailed(
            "The function comes to an end.",
            wrong=f"The function still runs after {seconds:g} s.",
            expected=f"an answer within {seconds:g} s",
            received="none",
            cure="look for a loop whose condition never becomes false, or a data set that repeats for ever",
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.settrace(tracing)
        watch.cancel()
        signal.signal(signal.SIGALRM, handler or signal.SIG_DFL)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), 1e-3), interval)


def _give_up_again(frame, event, _):
    """A trace function for the answer's frames. If a bare `except` catches the first _TimeIsUp, the handler's first line
    raises it again.
    """
    if event == "line":
        raise _TimeIsUp
    return _give_up_again


class _TimeIsUp(BaseException):
    """Raised when the time is over. It is not an Exception, because an answer might catch that in its loop."""


def call(answer: Callable, *inputs, case: str, next_step: str = RUN_IT):
    """The result of `answer(*inputs)`; an exception or a changed input counts as a wrong answer. `case` describes the inputs."""
    before = _values(inputs)
    shape_before = _structure(inputs)
    try:
        result = answer(*inputs)
    except (Exception, SystemExit) as error:
        if isinstance(error, CheckFailed) or _said_by_stub(error):
            raise
        raise _refusal(error, case, next_step) from error
    spoiled = "The function leaves its inputs as they were.", f"The function changed an input; here {case}."
    cure = "work on a copy, or build the result anew"
    if _structure(inputs) != shape_before:
        right, now = "the same lists, sets and dictionaries", "some with other entries"
        raise CheckFailed(spoiled[0], wrong=spoiled[1], expected=right, received=now, cure=cure)
    for old, new in zip(before, _values(inputs)):
        if old.shape != new.shape or np.any(_different(old, new)):
            at = tuple(map(int, np.argwhere(_different(old, new))[0])) if old.shape == new.shape else None
            raise CheckFailed(spoiled[0], wrong=spoiled[1], expected=_short(old), received=_short(new), index=at, cure=cure)
    return result


@contextlib.contextmanager
def stub_in_a_line() -> Iterator[None]:
    """A context in which a call of a stub becomes `Unanswered`: Jupyter then shows only the stub's line."""
    try:
        yield
    except NotImplementedError as error:
        if said := _said_by_stub(error):
            raise Unanswered(said) from None
        raise


def _said_by_stub(error: BaseException) -> str | None:
    """The stub's own line, even if TensorFlow traced the stub and added text around it; None for any other error."""
    found = re.search(notebook.STUB.format(r"\d+"), str(error)) if isinstance(error, NotImplementedError) else None
    return found and found[0]


def reason_of(error: BaseException) -> str:
    """The error's type and message in one line, without what TensorFlow adds; of traced code, the last line is the message."""
    first, *others = re.sub(r"\{\{\w+ \S+\}\} ?", "", str(error)).strip().splitlines() or ["no message"]
    return others[-1].strip() if others and first == "in user code:" else f"{type(error).__name__}: {first}"


def _refusal(error: BaseException, case: str, next_step: str) -> CheckFailed:
    return CheckFailed(
        "The function answers every valid input.",
        wrong=f"The function raised {type(error).__name__}; here {case}.",
        expected="a result",
        received=reason_of(error),
        **({"cure": next_step} if next_step == RUN_IT else {"next_step": next_step}),
    )


def parts(received, names: str, *, case: str) -> tuple:
    """`received` as a tuple with one value per name in `names`, which are separated by commas: "order, carried"."""
    count = names.count(",") + 1
    if isinstance(received, tuple | list) and len(received) == count:
        return tuple(received)
    found = counted(len(received), "value") if isinstance(received, tuple | list) else type(received).__name__
    raise CheckFailed(
        f"The function returns {names}.",
        wrong=f"The function returned {found}; here {case}.",
        expected=f"{count} values",
        received=found,
        cure=f"give back one value for each of: {names}",
    )


def require_close(received, expected, *, case: str, next_step: str, rtol: float = 1e-5) -> None:
    """Raise unless `received` is `expected` in shape, in dtype and, norm-wise, within `rtol`; whole numbers exactly.

    Args:
        received: the answer's result, a tensor or array; anything else is a wrong answer.
        expected: the reference's result, a float32 array.
        case: a description of the input, for the message: "rows of no ids at all".
    """
    rule = "The result is that of the reference."
    kind, expected = type(received).__name__, np.asarray(expected)
    with contextlib.suppress(Exception):
        received = np.asarray(received)
    if not isinstance(received, np.ndarray) or received.dtype == object != expected.dtype:
        right, kind = "one dense tensor" if expected.shape else "one number", "None" if kind == "NoneType" else f"of type {kind}"
        wrong = f"The result is {kind}; expected {right}; here {case}."
        raise CheckFailed(rule, wrong=wrong, expected=right, received=kind, next_step=next_step)
    for what in ("shape", "dtype"):
        mine, right = getattr(received, what), getattr(expected, what)
        if mine != right:
            wrong = f"The {what} is {mine}, and {right} is right; here {case}."
            raise CheckFailed(rule, wrong=wrong, expected=f"{what} {right}", received=f"{what} {mine}", next_step=next_step)
    if np.issubdtype(expected.dtype, np.floating):
        difference = np.abs(received.astype(np.float64) - expected)
        scale = max(float(np.linalg.norm(expected.astype(np.float64))), 1e-30)
    else:  # ids and counts have no rounding
        difference, scale, rtol = (received != expected).astype(np.float64), 1.0, 0.0
    if not np.linalg.norm(difference) <= rtol * scale:
        index = tuple(int(i) for i in np.unravel_index(np.argmax(np.nan_to_num(difference, nan=np.inf)), difference.shape))
        where = "row {}, column {}".format(*index) if len(index) == 2 else f"index {index}" if index else None
        raise CheckFailed(
            rule,
            wrong=f"{_how_far(received, expected, np.linalg.norm(difference) / scale, rtol)}; here {case}.",
            expected=expected[index],
            received=received[index],
            index=where,
            next_step=next_step,
        )


def _how_far(received: np.ndarray, expected: np.ndarray, off: float, rtol: float) -> str:
    """What differs: how many elements, and the relative error by norm."""
    if not expected.shape:
        return f"The value is {received}; the right one is {expected}{f' (allowed: {rtol:.2g} of it)' if rtol else ''}"
    differ = f"{np.count_nonzero(_different(received, expected)):,} of {expected.size:,} values differ"
    return f"{differ}; relative error {off:.2g}, allowed {rtol:.2g}" if rtol and math.isfinite(off) else differ


def _values(inputs: Sequence) -> list[np.ndarray]:
    """Copies of every array and plain value in `inputs` (tensors, variables, ragged tensors and nests of them)."""
    import tensorflow as tf

    flat = tf.nest.flatten(list(map(_without_deques, inputs)), expand_composites=True)
    return [np.array(t) for t in flat if hasattr(t, "__array__") or isinstance(t, int | float | str | bytes)]


def shown(inputs: Sequence) -> str | None:
    """The inputs in one line; None if they are more than FEW numbers, or other than arrays and plain values."""
    import tensorflow as tf

    def plain(value):
        ragged = isinstance(value, tf.RaggedTensor)
        return value.to_list() if ragged else np.asarray(value).tolist() if hasattr(value, "__array__") else value

    given = tf.nest.map_structure(plain, [dict(each) if isinstance(each, dict) else each for each in inputs])
    flat = tf.nest.flatten(given)
    if len(flat) > FEW or not all(isinstance(value, int | float | str | bytes | None) for value in flat):
        return None
    return re.sub(r"(\.\d{6})\d+", r"\1", "; ".join(map(repr, given)))


def _structure(nest) -> object:
    """The structure of a nest: its lists, tuples, deques and dictionaries without their values, and its sets with them."""
    if isinstance(nest, dict):
        return {name: _structure(value) for name, value in nest.items()}
    if isinstance(nest, Set):
        return frozenset(nest)
    return [_structure(value) for value in nest] if type(nest) in (list, tuple, deque) else None


def _without_deques(nest):
    """The nest with a list in place of each deque, because TensorFlow treats a deque as a value."""
    if isinstance(nest, dict):
        return {name: _without_deques(value) for name, value in nest.items()}
    return [_without_deques(value) for value in nest] if type(nest) in (list, tuple, deque) else nest


def _different(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Marks the elements that differ; two NaNs are equal."""
    return (old != new) & ~((old != old) & (new != new))


def counted(count: int, what: str) -> str:
    """A number and its noun: "1 core", "1,024 cores"."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def in_short(value: object) -> str:
    """A value's text in one line, without its end if it is long."""
    text = " ".join(str(value).split()).rstrip(".")
    return text if len(text) <= 80 else f"{text[:77]}..."


def _short(array: np.ndarray) -> str:
    return np.array2string(array, threshold=8, edgeitems=3, precision=4)

"""Declared exercises on kernels and arrays: the question, the cases, the reference, the comparison, and the budget.

A lesson's `CHECKS` names an `Exercise` by its number. A call with an answer and a random generator judges the answer: `judge`
runs it on each case, compares the results with the reference, and then enforces the limits. A check that can't be declared so,
such as one of threads, files or servers, stays a function `(answer, rng)` in the same table. Parts of a check can be functions
too: a comparison is any function `(received, expected, case, question)` that raises CheckFailed, and a limit is any `(answer,
rng)`.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from ctrlab.lessons.check import RUN_IT, CheckFailed, call, in_short, parts, require_close, shown
from ctrlab.lessons.limits import Limit, Rng
from ctrlab.lessons.own_kernel import on_own

Cases = Callable[[Rng], Iterable[tuple]]
Compare = Callable[[object, object, str, Sequence], None]


def tensors(*question) -> tuple:
    """The question with a tensor in place of each NumPy array, also inside lists, tuples and dictionaries."""
    import tensorflow as tf

    return tuple(tf.nest.map_structure(lambda x: tf.constant(x) if isinstance(x, np.ndarray) else x, list(question)))


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """The question to a learner's function, and its right answers.

    Attributes:
        asks: its signature, with inputs and outputs: "multi_hot(ids, size): ragged int64 [B, (L)] -> float32 [B, V]".
        cases: a random generator -> (description, *question) of each case: random ones first, then those that break a careless
            answer. They depend on the generator, so no answer can memorize them.
        reference: question -> the right result, by the definition, in NumPy; a tuple if `compare` has several parts.
        compare: how the result is compared; by name for each part if the function returns several: {"ids": ..., "rows": ...}.
        given: question -> the arguments of the function. `tensors` turns NumPy arrays into tensors.
        ask: answer -> the function that is called in its place, such as one that also returns the answer's gradients.
        limits: the limits that are enforced after the cases: `Traced`, `NoLoop`, `Peak`, `NoAllocation`, or a function of the
            lesson.
        afterwards: cases that come after the limits: large ones, on which an answer that spends too much would need all memory.
        kernel: the learner's native kernel on which the op runs: "gru"; "" if the function is in Python.
        run_it: the next step to try if the function raises; by default to run it by hand or, for a kernel, to try ours.
        mistakes: {what was done: question -> what comes out then, as from `reference`}. A refusal names one only if what came is
            its result, and that of no other.
    """

    asks: str
    cases: Cases
    reference: Callable
    compare: Compare | dict[str, Compare]
    given: Callable[..., tuple] = lambda *question: question
    ask: Callable[[Callable], Callable] = lambda answer: answer
    limits: Sequence[Limit] = ()
    afterwards: Cases = lambda rng: ()
    kernel: str = ""
    run_it: str = ""
    mistakes: Mapping[str, Callable] = field(default_factory=dict)

    def __call__(self, answer: Callable, rng: Rng) -> None:
        judge(self, answer, rng)


def judge(exercise: Exercise, answer: Callable, rng: Rng) -> None:
    """Judge `answer` on the exercise.

    Raises:
        CheckFailed: a result is wrong, an input was changed, a case made it raise, it spends too much, or it does not run on the
            learner's kernel.
    """
    if exercise.kernel:
        answer = on_own(exercise.kernel, answer)
    _put(exercise, answer, exercise.cases(rng))
    for limit in exercise.limits:
        limit(answer, rng)
    _put(exercise, answer, exercise.afterwards(rng))


def _put(exercise: Exercise, answer: Callable, cases: Iterable[tuple]) -> None:
    asked, compare = exercise.ask(answer), exercise.compare
    run_it = exercise.run_it or ("does it crash with our kernel too?" if exercise.kernel else RUN_IT)
    for case, *question in cases:
        received = call(asked, *exercise.given(*question), case=case, next_step=run_it)
        expected = exercise.reference(*question)  # not before, where the answer could look it up in our frame
        try:
            _compare(compare, received, expected, case, question)
        except CheckFailed as refused:
            made = [
                what for what, result in exercise.mistakes.items() if _is(compare, received, result(*question), case, question)
            ]
            if len(made) == 1:
                refused.wrong = f"{made[0]}; here {case}."
            refused.input = shown(exercise.given(*question))
            raise


def _compare(compare: Compare | dict[str, Compare], received, expected, case: str, question: Sequence) -> None:
    if callable(compare):
        compare(received, expected, case, question)
        return
    values = parts(received, ", ".join(compare), case=case)
    for (name, of_part), value, right in zip(compare.items(), values, expected, strict=True):
        of_part(value, right, f"{case}, `{name}`", question)


def _is(compare: Compare | dict[str, Compare], received, other, case: str, question: Sequence) -> bool:
    """Whether what was received is this other result."""
    try:
        _compare(compare, received, other, case, question)
    except CheckFailed:
        return False
    return True


# Comparisons.


@dataclass(frozen=True)
class Close:
    """A tensor or array of the reference's shape and of `dtype`, or, with None, of its dtype, too: norm-wise within `rtol` of it,
    ids and counts exactly.

    Attributes:
        read: extracts the compared part of the result, if it is not the whole: `lambda events: events.flat`.
    """

    next_step: str
    rtol: float = 1e-5
    dtype: type | None = np.float32
    read: Callable[[object], object] = lambda received: received

    def __call__(self, received, expected, case: str, question: Sequence) -> None:
        try:
            received = self.read(received)
        except (AttributeError, TypeError, LookupError) as error:
            wrong = f"The result is a {type(received).__name__}, without the arrays that are asked for; here {case}."
            rule = "The result is of the kind that is asked for."
            found = in_short(repr(received))
            raise CheckFailed(rule, wrong=wrong, expected="its arrays", received=found, next_step=self.next_step) from error
        expected = np.asarray(expected, self.dtype)
        require_close(received, expected, case=case, next_step=self.next_step, rtol=self.rtol)


@dataclass(frozen=True)
class Number:
    """A number, not in an array: within `rtol` of the reference or within `atol`; exactly equal if neither is given. If the
    reference is nan, infinite or None, the answer must be the same.

    Attributes:
        rule: a sentence on the number, without a full stop: "The exponent is minus the slope".
        whole: the number is a count, so it must be an int.
        shown: question -> the part of it that a refusal shows.
    """

    rule: str
    next_step: str
    rtol: float = 0.0
    atol: float = 0.0
    whole: bool = False
    shown: Callable[..., str] | None = None

    def __call__(self, received, expected, case: str, question: Sequence) -> None:
        kind = numbers.Integral if self.whole else numbers.Real
        if expected is None or isinstance(received, bool) or not isinstance(received, kind):
            if expected is not None or received is not None:
                wanted = expected if expected is None else f"{'a whole number' if self.whole else 'a number'}, {expected}"
                _refuse(self, wanted, in_short(repr(received)), case, question)
            return
        # Python's numbers: what is compared with a float32 would be rounded to one, too.
        received, expected = (each.item() if isinstance(each, np.generic) else each for each in (received, expected))
        allowed = max(self.atol, self.rtol * abs(expected)) if math.isfinite(expected) else 0.0
        both_nan = expected != expected and received != received
        try:
            right = received == expected or both_nan or abs(received - expected) <= allowed
        except OverflowError:  # a whole number that no float holds
            right = False
        if not right:
            _refuse(self, expected, received, case, question)


@dataclass(frozen=True)
class Same:
    """A plain value, such as a name, a choice or None, that equals the reference and is of its type. `rule` and `shown` are as in
    `Number`."""

    rule: str
    next_step: str
    shown: Callable[..., str] | None = None

    def __call__(self, received, expected, case: str, question: Sequence) -> None:
        try:
            alike = isinstance(received, bool) == isinstance(expected, bool) and isinstance(received, type(expected))
            same = alike and bool(received == expected)
        except (TypeError, ValueError):  # arrays inside have no one truth
            same = False
        if not same:
            _refuse(self, in_short(repr(expected)), in_short(repr(received)), case, question)


def _refuse(by: Number | Same, expected, received, case: str, question: Sequence) -> NoReturn:
    index = by.shown(*question) if by.shown else None
    wrong = f"The answer is {received}, and not {expected}; here {case}."
    raise CheckFailed(f"{by.rule}.", wrong=wrong, expected=expected, received=received, index=index, next_step=by.next_step)


@dataclass(frozen=True)
class Each:
    """A list or tuple of as many values as the reference has, or a dictionary of the same names; `compare` judges each of them.

    Attributes:
        of: the name of a value in messages: "output".
    """

    of: str
    compare: Compare

    def __call__(self, received, expected, case: str, question: Sequence) -> None:
        kinds, names = (dict, set) if isinstance(expected, dict) else ((list, tuple), lambda values: range(len(values)))
        if not isinstance(received, kinds) or names(received) != names(expected):
            raise CheckFailed(
                f"There is one {self.of} for each that is asked for, and no other.",
                wrong=f"The {self.of}s are not those that are asked for; here {case}.",
                expected=list(expected) if kinds is dict else f"a list of {len(expected)}",
                received=in_short(list(received) if isinstance(received, dict) else repr(received)),
                cure=f"return a {'dictionary' if kinds is dict else 'list'} with each {self.of}",
            )
        for name in expected if kinds is dict else range(len(expected)):
            self.compare(received[name], expected[name], f"{case}, {self.of} {name!r}", question)


@dataclass(frozen=True)
class Ragged:
    """A ragged tensor [n, (L)] of `dtype` with int64 row splits, exactly as the reference, which is a list of lists."""

    next_step: str
    dtype: type = np.int64

    def __call__(self, received, expected, case: str, question: Sequence) -> None:
        import tensorflow as tf

        if not isinstance(received, tf.RaggedTensor) or received.ragged_rank != 1:
            step = "tf.RaggedTensor.from_row_splits(values, row_splits) makes one"
            wrong = f"The result is a {type(received).__name__}, and not a ragged tensor of rank 2; here {case}."
            rule, right = "The result is one ragged tensor.", "a RaggedTensor [n, (L)]"
            raise CheckFailed(rule, wrong=wrong, expected=right, received=in_short(repr(received)), next_step=step)
        lengths = np.array([len(row) for row in expected], np.int64)
        values = np.array([value for row in expected for value in row], self.dtype)
        for what, mine, right in (("lengths", received.row_lengths(), lengths), ("values", received.flat_values, values)):
            require_close(mine, right, case=f"{case}, the {what}", next_step=self.next_step, rtol=0)

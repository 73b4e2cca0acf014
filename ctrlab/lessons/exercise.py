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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from ctrlab.lessons import interpreter
from ctrlab.lessons.budget import Budget
from ctrlab.lessons.check import RUN_IT, CheckFailed, call, parts, require_close
from ctrlab.lessons.own_kernel import on_own, require_no_allocation

Rng = np.random.Generator
Cases = Callable[[Rng], Iterable[tuple]]
Compare = Callable[[object, object, str, Sequence], None]
Limit = Callable[[Callable, Rng], None]


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
        if callable(compare):
            compare(received, expected, case, question)
            continue
        values = parts(received, ", ".join(compare), case=case)
        for (name, of_part), value, right in zip(compare.items(), values, expected, strict=True):
            of_part(value, right, f"{case}, `{name}`", question)


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
            rule = f"The result is of the kind that is asked for; here {case}."
            raise CheckFailed(rule, expected="its arrays", received=_brief(received), next_step=self.next_step) from error
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
                _refuse(self, wanted, _brief(received), case, question)
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
            _refuse(self, expected, _brief(received), case, question)


def _refuse(by: Number | Same, expected, received, case: str, question: Sequence) -> NoReturn:
    index = by.shown(*question) if by.shown else None
    raise CheckFailed(f"{by.rule}; here {case}.", expected=expected, received=received, index=index, next_step=by.next_step)


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
                f"There is one {self.of} for each that is asked for, and no other; here {case}.",
                expected=list(expected) if kinds is dict else f"a list of {len(expected)}",
                received=_brief(list(received)) if isinstance(received, dict) else _brief(received),
                next_step=f"return a {'dictionary' if kinds is dict else 'list'} with each {self.of}",
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
            rule = f"The result is one ragged tensor; here {case}."
            raise CheckFailed(rule, expected="a RaggedTensor [n, (L)]", received=_brief(received), next_step=step)
        lengths = np.array([len(row) for row in expected], np.int64)
        values = np.array([value for row in expected for value in row], self.dtype)
        for what, mine, right in (("lengths", received.row_lengths(), lengths), ("values", received.flat_values, values)):
            require_close(mine, right, case=f"{case}, the {what}", next_step=self.next_step, rtol=0)


def _brief(value: object) -> str:
    """The received value, in one line."""
    shown = " ".join(repr(value).split())
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


# Limits. `on` makes the inputs on which the cost is taken, large enough to tell a careful answer from a wasteful one.


@dataclass(frozen=True, kw_only=True)
class Traced(Budget):
    """A budget of the graph: the answer consists of TensorFlow ops only, and does not exceed the budget on the inputs that
    `on` makes.
    """

    on: Callable[[Rng], tuple]
    next_step: str

    def __call__(self, answer: Callable, rng: Rng) -> None:
        self.enforce(answer, *self.on(rng), next_step=self.next_step)


@dataclass(frozen=True)
class NoLoop:
    """A limit of Python's work: for `many` items, such as "keys", Python runs at most `most` lines and calls; NumPy must do
    the rest.
    """

    of: str
    many: int
    most: int
    on: Callable[[Rng], tuple]

    def __call__(self, answer: Callable, rng: Rng) -> None:
        interpreter.require_no_loop(answer, *self.on(rng), of=self.of, many=self.many, most=self.most)


@dataclass(frozen=True)
class Peak:
    """A limit of memory: one call holds at most `most` bytes at once; `of` describes its input: "2,000 reads of a table"."""

    rule: str
    of: str
    most: int
    on: Callable[[Rng], tuple]
    next_step: str

    def __call__(self, answer: Callable, rng: Rng) -> None:
        inputs = self.on(rng)
        held = call(lambda: interpreter.peak_of(answer, *inputs), case=self.of)
        if held > self.most:
            received = f"{held:,} bytes for {self.of}"
            rule = f"Budget: {self.rule}."
            raise CheckFailed(rule, expected=f"at most {self.most:,} bytes", received=received, next_step=self.next_step)


@dataclass(frozen=True)
class NoAllocation:
    """A limit for kernels: the learner's kernel allocates no memory on the questions that `on` makes; see
    `require_no_allocation`.
    """

    kernel: str
    sizes: str
    on: Callable[[Rng], Sequence[tuple]]
    next_step: str

    def __call__(self, answer: Callable, rng: Rng) -> None:
        require_no_allocation(self.kernel, answer, self.on(rng), sizes=self.sizes, next_step=self.next_step)

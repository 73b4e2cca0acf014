"""The limits of an answer's cost, which exercises declare; `says` is what the exercise's text tells the learner of a limit.

`on` makes the inputs on which the cost is taken, large enough to tell a careful answer from a wasteful one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ctrlab.lessons import interpreter
from ctrlab.lessons.budget import FREE, Budget
from ctrlab.lessons.check import CheckFailed, call
from ctrlab.lessons.outcome import plain
from ctrlab.lessons.own_kernel import require_no_allocation

Rng = np.random.Generator
Limit = Callable[[Callable, Rng], None]


@dataclass(frozen=True, kw_only=True)
class Traced(Budget):
    """A budget of the graph: the answer consists of TensorFlow ops only, and does not exceed the budget on the inputs that
    `on` makes; `of` describes these: "64 bags of 20 ids".
    """

    on: Callable[[Rng], tuple]
    of: str
    next_step: str

    def says(self) -> str:
        return f"for {self.of}, {self.numbers()}; {FREE}; no loop or branch in the graph"

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

    def says(self) -> str:
        return f"for {self.many:,} {self.of}, at most {self.most:,} lines and calls of Python"

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

    def says(self) -> str:
        return f"for {self.of}, at most {self.most:,} bytes of new memory at once"

    def __call__(self, answer: Callable, rng: Rng) -> None:
        inputs = self.on(rng)
        held = call(lambda: interpreter.peak_of(answer, *inputs), case=self.of)
        if held > self.most:
            received = f"{held:,} bytes for {self.of}"
            wrong, most = f"The call held {held:,} bytes, more than {self.most:,}.", f"at most {self.most:,} bytes"
            raise CheckFailed(f"Budget: {self.rule}.", wrong=wrong, expected=most, received=received, next_step=self.next_step)


@dataclass(frozen=True)
class NoAllocation:
    """A limit for kernels: the learner's kernel allocates no memory on the questions that `on` makes; see
    `require_no_allocation`.
    """

    kernel: str
    sizes: str
    on: Callable[[Rng], Sequence[tuple]]
    next_step: str

    def says(self) -> str:
        return "no call of malloc, new or mmap in the kernel, nor a container that grows"

    def __call__(self, answer: Callable, rng: Rng) -> None:
        require_no_allocation(self.kernel, answer, self.on(rng), sizes=self.sizes, next_step=self.next_step)


@dataclass(frozen=True)
class Stated:
    """A limit of a lesson's own, and what the exercise's text tells of it: "at most 6 times the work for 4 times the fields".
    Without `limit`, the comparison enforces it.
    """

    what: str
    limit: Limit = lambda answer, rng: None

    def says(self) -> str:
        return self.what

    def __call__(self, answer: Callable, rng: Rng) -> None:
        self.limit(answer, rng)


def stated(*what: str) -> Callable[[Limit], Limit]:
    """Marks a check that is a function with what the exercise's text tells of its limits."""

    def mark(check: Limit) -> Limit:
        check.limits = tuple(Stated(each, check) for each in what)
        return check

    return mark


def limits_of(check: Limit) -> list[str]:
    """What the text of an exercise tells of its limits, in their order."""
    return [limit.says() for limit in getattr(check, "limits", ()) if hasattr(limit, "says")]


def tolerances_of(check: Limit) -> list[str]:
    """What the text of an exercise tells of how near its floats must come."""
    compare, near = getattr(check, "compare", None), {}
    for name, part in (compare if isinstance(compare, dict) else {"": compare}).items():
        part = getattr(part, "compare", part)
        if getattr(part, "dtype", np.float32) in (np.float32, np.float64):
            near.setdefault(max(getattr(part, "rtol", 0), getattr(part, "atol", 0)), []).append(name)
    names = {most: "" if len(near) == 1 else f" of {' and '.join(of)}" for most, of in near.items() if most}
    return [f"floats{of} within {plain(most)} of the right ones, by norm" for most, of in names.items()]

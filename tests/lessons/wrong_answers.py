"""Wrong answers that fit any exercise, made of its right one."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest
import tensorflow as tf

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed


class Replay:
    """The right answer to the question before."""

    def __init__(self, right: Callable):
        self.right, self.last = right, None

    def __call__(self, *question):
        now = self.right(*question)
        last, self.last = self.last, now
        return now if last is None else last


class ByHeart:
    """Right on two seeds: it knows the answers to all their questions; to any other it gives what came in that place.

    Where it is traced, to see what it costs, it does what is right.
    """

    def __init__(self, lesson: str, exercise: int, right: Callable):
        self.of, self.right, self.known, self.in_order = (lesson, exercise), right, {}, []

    def __call__(self, *question):
        if not self.known:
            for seed in (2, 0):
                self.in_order.clear()
                check.run(*self.of, self._learn, seed)
        words = _words(question)
        if words is None:
            return self.right(*question)
        next_one = self.in_order.pop(0) if len(self.in_order) > 1 else self.in_order[0]
        return self.known.get(words, next_one)

    @tf.autograph.experimental.do_not_convert
    def _learn(self, *question):
        words, answer = _words(question), self.right(*question)
        if words is not None:
            self.in_order.append(answer)
            self.known[words] = answer
        return answer


def _words(question: tuple) -> bytes | None:
    """Equal bytes of equal questions; None of tensors that have no values yet."""
    flat = tf.nest.flatten(list(question), expand_composites=True)
    if any(map(tf.is_symbolic_tensor, flat)):
        return None
    return pickle.dumps([(np.asarray(t).dtype.str, np.asarray(t).tolist()) if hasattr(t, "__array__") else t for t in flat])


Wrong = Iterable[Callable] | dict[Callable, str | None] | dict[str, Callable | tuple[Callable, str]]
"""Wrong answers; or {answer: what its refusal says, a pattern}; or {name: answer}, {name: (answer, pattern)}."""


def judge(lesson: str, exercises: dict[int, tuple[Callable | tuple[Callable, ...], Wrong]], *, kernels: bool = False):
    """Two tests of a lesson's checks, for its test file to bind: right answers pass, wrong ones are refused.

    Args:
        exercises: by number, the right answer, or several, and wrong ones. A replay, and what was learned by heart, are wrong
            answers to each.
        kernels: the answers take the place of kernels; see the fixture `swapped`.
    """
    right, wrong = [], []
    for n, (passes, answers) in exercises.items():
        for place, answer in enumerate(passes if isinstance(passes, tuple) else (passes,)):
            right += [pytest.param(n, answer, seed, id=f"{n}-{seed}{f'-{named(answer)}' * bool(place)}") for seed in range(3)]
            if not kernels and not place:
                wrong += [
                    pytest.param(n, one, None, id=f"{n}-{named(one)}") for one in (Replay(answer), ByHeart(lesson, n, answer))
                ]
        wrong += [pytest.param(n, answer, words, id=f"{n}-{name}") for name, answer, words in _named(answers)]

    @pytest.mark.parametrize("exercise, answer, seed", right)
    def test_right_answers_pass(exercise, answer, seed):
        check.run(lesson, exercise, answer, seed)

    @pytest.mark.parametrize("exercise, answer, says", wrong)
    def test_wrong_answers_are_refused(exercise, answer, says):
        with pytest.raises(CheckFailed) as refused:
            check.run(lesson, exercise, answer, 1)
        require_told(refused.value, says)

    both = test_right_answers_pass, test_wrong_answers_are_refused
    return tuple(map(pytest.mark.usefixtures("swapped"), both)) if kernels else both


def require_told(refused: CheckFailed, says: str | None = None) -> None:
    """Requires a headline that is not the rule, and a next step at the second refusal; `says` is found in all of its text."""
    first = str(refused)
    assert refused.rule.endswith(".") and refused.next_step and not first.startswith(refused.rule)
    refused.tell()
    assert refused.next_step in str(refused)
    assert says is None or re.search(says, str(refused)), f"{says!r} is not in: {refused}"


def _named(answers: Wrong) -> Iterator[tuple[str, Callable, str | None]]:
    """(name, answer, the pattern of what its refusal says or None) of each."""
    for key in answers:
        value = answers[key] if isinstance(answers, dict) else None
        if isinstance(key, str):
            yield key, *(value if isinstance(value, tuple) else (value, None))
        else:
            yield named(key), key, value


def named(answer: object) -> str:
    """The answer's name in pytest's report."""
    return getattr(answer, "__name__", type(answer).__name__)


class Altered:
    """The right answer with a change made to each number, or to what came in; `altered` tells whether that made a difference."""

    def __init__(
        self, right: Callable, change: Callable[[object], object] | None = None, spoil: Callable[[tuple], bool] | None = None
    ):
        self.right, self.change, self.spoil, self.altered = right, change, spoil, False

    @tf.autograph.experimental.do_not_convert
    def __call__(self, *question):
        result = self.right(*question)
        if self.spoil:
            self.altered |= self.spoil(question)
            return result
        return tf.nest.map_structure(self._changed, result, expand_composites=True)

    def _changed(self, part):
        if (
            tf.is_symbolic_tensor(part)
            or isinstance(part, bool)
            or not isinstance(part, tf.Tensor | np.ndarray | np.number | int | float)
        ):
            return part
        before = np.asarray(part)
        after = self.change(before)
        self.altered |= after.dtype != before.dtype or not np.array_equal(before, after, equal_nan=after.dtype.kind == "f")
        if isinstance(part, tf.Tensor):
            return tf.constant(after)
        return after if isinstance(part, np.ndarray) else type(part)(after) if after.dtype == before.dtype else after[()]


def _off_by_one(array: np.ndarray) -> np.ndarray:
    """Each number one place further, not each row: keys and their rows may come in any order together."""
    return np.roll(array, 1) if array.ndim else array + array.dtype.type(1)


def _low_precision(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float16).astype(array.dtype) if array.dtype.kind == "f" else array


def _another_dtype(array: np.ndarray) -> np.ndarray:
    others = {"float32": np.float64, "float64": np.float32, "int64": np.int32}
    return array.astype(others.get(array.dtype.name, array.dtype)) if array.ndim else array


def _spoil_an_input(question: tuple) -> bool:
    """Changes the first thing in the question that can be changed; whether there is one."""
    for given in question:
        if isinstance(given, np.ndarray) and given.size and given.flags.writeable:
            given.reshape(-1)[:1] = given.reshape(-1)[:1] + given.dtype.type(1)
            return True
        if isinstance(given, list | dict) and given:
            given.clear()
            return True
    return False


def usual(right: Callable) -> dict[str, Callable]:
    """Wrong answers for every exercise, made from its right answer. An `Altered` that never altered anything was right."""
    first: list = []

    @tf.autograph.experimental.do_not_convert
    def constant(*question):
        if not first:
            first.append(right(*question))
        return first[0]

    return {
        "nothing": lambda *question: None,
        "its first input": lambda *question: question[0],
        "a constant": constant,
        "a replay": Replay(right),
        "off by one": Altered(right, _off_by_one),
        "low precision": Altered(right, _low_precision),
        "another dtype": Altered(right, _another_dtype),
        "an input changed": Altered(right, spoil=_spoil_an_input),
    }

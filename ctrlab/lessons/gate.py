"""The gate at the end of a lesson: checks that both models compute the same, and how fast. A wrong answer raises; a missed speed
is reported.

A loss alone sees little: an op that ignores one of its weights may move it by a millionth. So the gate also compares their logits
and the gradient of every variable, from the same weights, on the same batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.cpp_cell import Source
from ctrlab.lessons.progress import NOT_JUDGED, Speed, Verdict

SHOWN = {True: "shown", False: "NOT shown", None: "-"}


def require_passed(exercises: Iterable[int], passed: Mapping[int, tuple[Callable, object]]) -> None:
    """Requires that every exercise has passed in this session, and that its answer was not rewritten since.

    Args:
        passed: {exercise: the answer, and its `code_of` when it passed}.
    Raises:
        CheckFailed: an exercise has not passed.
    """
    for exercise in sorted(exercises):
        answer, code = passed.get(exercise, (None, None))
        if answer is None or code_of(answer) != code:
            raise CheckFailed(
                "Every exercise is passed in this session.",
                wrong=f"Exercise {exercise} is not passed in this session.",
                expected=f"exercise {exercise} passed",
                received="not yet" if answer is None else f"{answer.__name__} was written anew since",
                cure=f"run its check, lab.check({exercise}, ...); lab.use_solution({exercise}) helps who is stuck",
            )


def code_of(answer: Callable) -> object:
    """The current code of the notebook's function with the answer's name; None if there is none. It is found by name, because the
    function object that passed does not change when its cell does. A cell that only ran again has an equal code. The code of a
    %%cpp cell is its whole text.
    """
    from IPython import get_ipython

    shell = get_ipython()
    if shell is not None and isinstance(answer, Source):
        return shell.user_ns.get(answer.name)
    if shell is None or getattr(answer, "__module__", None) != "__main__":
        return None
    return getattr(shell.user_ns.get(getattr(answer, "__name__", "")), "__code__", None)


def require_something(*judged: Collection | None) -> None:
    """Requires that a gate has something to judge.

    Raises:
        CtrlabError: all arguments are empty or None.
    """
    if not any(judged):
        raise CtrlabError("A gate judges something, and nothing was given: give models, losses, a comparison or claims.")


def judged(claims: Mapping[str, object], beyond_tiny: Mapping[str, object], profile: str) -> dict[str, bool | None]:
    """{claim: whether it holds}; None if it is not judged: the claim is None, or it is one beyond tiny at the profile `tiny`.

    Raises:
        CtrlabError: a claim is neither true nor false.
    """
    found = {what: _truth(what, holds) for what, holds in (*claims.items(), *beyond_tiny.items())}
    return found | (dict.fromkeys(beyond_tiny) if profile == "tiny" else {})


def _truth(what: str, holds: object) -> bool | None:
    if holds is None:
        return None
    value = np.asarray(holds)
    if value.dtype != bool or value.shape != ():
        raise CtrlabError(f"A claim is True, False or, where it can't be judged, None; {what!r} came to {str(holds)[:60]!r}.")
    return bool(value)


def same_answers(models: Mapping[str, object], batch: tuple) -> int:
    """Compares the other models with the first one, from its weights. All models keep their own weights.

    Args:
        batch: (features, labels).
    Returns:
        The number of compared tensors.
    Raises:
        CheckFailed: a tensor differs by more than float32's rounding explains. CtrlabError: there is no other model, or the first
            one's answers are not finite, so they can't be compared.
    """
    from ctrlab.training import equality, get_state, set_state

    if len(models) < 2:
        raise CtrlabError(f"Models are held to the first one, so there are at least two; {len(models)} was given.")
    (first, baseline), *others = models.items()
    state, answer = get_state(baseline), equality.answers(baseline)

    def answered(other: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        set_state(other, baseline)
        try:
            return answer(*batch)
        finally:
            set_state(state, baseline)

    expected = answer(*batch)
    tolerances = equality.determined(answered, state, expected)
    for name, model in others:
        own = get_state(model)
        try:
            set_state(state, model)
            received = equality.answers(model)(*batch)
        finally:
            set_state(own, model)
        if odd := equality.differences(expected, received, tolerances):
            worst, allowed = odd[0], tolerances.get(odd[0].tensor, equality.TOLERANCE)
            raise CheckFailed(
                "From the same weights, both models give the same logits and the same gradients.",
                wrong=f"{name!r} gives another {worst.tensor} than {first!r}.",
                expected=f"those of {first!r}, within {allowed:.1g} by norm",
                received=f"{worst.relative:.2g} off ({name!r}), as are {len(odd) - 1} other tensors",
                index=worst.tensor,
                cure="does the new op use each of its weights, forward and backward? Compare it with its reference",
            )
    return len(expected)


def largest_difference(losses: Mapping[str, Iterable[float]], rtol: float) -> float:
    """The largest relative difference of the other curves from the first one.

    Raises:
        CheckFailed: it is above `rtol`, a curve has another length or no steps, or there is no other curve.
    """
    curves = {name: np.asarray(list(curve), np.float64) for name, curve in losses.items()}
    if len(curves) < 2 or not all(map(len, curves.values())):
        raise CheckFailed(
            "The losses of two models at least are compared, over one step at least.",
            wrong="There are no two curves of losses to compare.",
            expected="two curves that are not empty",
            received=", ".join(f"{len(curve)} steps of {name!r}" for name, curve in curves.items()),
            cure="run the cell that trains the models again, to its end",
        )
    (first, baseline), *others = curves.items()
    largest = 0.0
    for name, curve in others:
        if curve.shape != baseline.shape:
            raise CheckFailed(
                "Both models take the same steps.",
                wrong=f"{name!r} took {len(curve)} steps, and {first!r} {len(baseline)}.",
                expected=f"{len(baseline)} ({first})",
                received=f"{len(curve)} ({name})",
                cure="train both on the same batches",
            )
        relative = np.abs(curve - baseline) / np.maximum(np.abs(baseline), 1e-30)
        step = int(np.argmax(np.nan_to_num(relative, nan=np.inf)))
        if not relative[step] <= rtol:
            raise CheckFailed(
                f"The losses agree within {rtol:g}, relative.",
                wrong=f"The losses of {name!r} and {first!r} differ by {relative[step]:.2g}, relative.",
                expected=f"{baseline[step]:.8f} ({first})",
                received=f"{curve[step]:.8f} ({name})",
                index=f"step {step}",
                cure="same seed, same batches, same weights? Then look at the gradient",
            )
        largest = max(largest, float(relative[step]))
    return largest


def speed_of(comparison, variant: str, at_least: float, profile: str) -> Speed:
    """The measured speed of `variant`, judged unless the profile is `tiny`.

    Raises:
        CheckFailed: the measurement is not plausible.
    """
    ratio = comparison.ratio(variant)
    if not 0 < ratio.low <= ratio.median <= ratio.high < math.inf:
        raise CheckFailed(
            "A measurement is a finite interval around its median.",
            wrong=f"The measured interval of {variant!r} is no finite interval around its median.",
            expected="0 < low <= median <= high",
            received=f"{ratio.low}, {ratio.median}, {ratio.high}",
            cure="run the measurement again on a quieter machine",
        )
    verdict = NOT_JUDGED if profile == "tiny" else comparison.verdict(variant, at_least)
    return Speed(variant, at_least, ratio.median, ratio.low, ratio.high, verdict)


def print_verdict(verdict: Verdict, rtol: float) -> None:
    """Prints what was shown and what was not, one line each."""
    print("exercises  all passed" + (f", {len(verdict.solutions)} with its solution" if verdict.solutions else ""))
    if verdict.answers is not None:
        print(f"answers    the same: logits and each gradient, {verdict.answers} tensors")
    if verdict.difference is not None:
        print(f"losses     the same within {rtol:g} (largest difference {verdict.difference:.1e})")
    if verdict.speed:
        print(f"speed      {verdict.speed}")
    for what, holds in verdict.claims.items():
        print(f"{SHOWN[holds]:<11}{what}" + (f": {NOT_JUDGED}" if holds is None else ""))
    print(f"verdict    {verdict} (profile {verdict.profile}; {verdict.machine})")

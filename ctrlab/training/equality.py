"""Checks "same weights, same answers": that a set of optimizations computes what the baseline computes.

Both start from one saved state and take the same batch. Loss, logits and every gradient tensor must agree, and so must every
variable and slot after the step. Tensors are compared by norm, |a - b| / |a|, because a single small entry may be all rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ctrlab.errors import CtrlabError
from ctrlab.training.state import get_state, set_state
from ctrlab.training.step import gradients_of, untraced_step

TOLERANCE = 1e-5  # float32 rounds at 6e-8; summing a batch in another order changes results by about 1e-6
# A step is the difference of two float32 weights: weights of .25 that move by .001 round it at 1.5e-5.
STEP_TOLERANCE = 1e-4
ROUNDINGS = 4  # random roundings sample the rounding error; another order of sums may differ by a few times as much
# A bias before a softmax shifts all scores of an example equally, which changes nothing. Its gradient is 0, and so is its update.
# The computed values are pure rounding noise, so no digits can be compared. They only have to be negligible beside the gradient
# of the same layer's weight matrix.
ZERO = {"attention/dense_2/bias": "attention/dense_2/kernel", "attention_dense_2_bias": "attention_dense_2_kernel"}
NEGLIGIBLE = 1e-3


@dataclass(frozen=True)
class Difference:
    """A tensor that two models disagree on. `relative` is the distance by norm, or inf if only one model has the tensor."""

    tensor: str
    relative: float


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """|a - b| / |a|; 0 if both are zero, inf if shapes differ or a number is not finite."""
    if a.shape != b.shape or not (np.all(np.isfinite(a)) and np.all(np.isfinite(b))):
        return float("inf")
    gap, size = np.linalg.norm((a.astype(np.float64) - b).ravel()), np.linalg.norm(a.astype(np.float64).ravel())
    return 0.0 if gap == 0 else float(gap / size) if size else float("inf")


def compare(
    expected: dict[str, np.ndarray], received: dict[str, np.ndarray], tolerance: float | dict[str, float] = TOLERANCE
) -> list[Difference]:
    """The tensors that differ by more than `tolerance` (one number, or one per tensor), worst first."""
    inf = float("inf")
    gaps = {k: distance(expected[k], received[k]) if k in expected and k in received else inf for k in {*expected, *received}}
    allowed = tolerance if isinstance(tolerance, dict) else dict.fromkeys(gaps, tolerance)
    return sorted((Difference(k, gap) for k, gap in gaps.items() if gap > allowed.get(k, TOLERANCE)), key=lambda d: -d.relative)


def answers(model) -> Callable:
    """Returns `(features, labels) -> {"loss", "logits", "gradient/<variable>"}`. It uses the current state and restores it."""

    @tf.function
    def compute(features, labels):
        return _dense(*gradients_of(model, features, labels))

    def answer(features, labels) -> dict[str, np.ndarray]:
        before = [v.numpy() for v in model.non_trainable_variables]  # a training-mode pass changes batch norm's statistics
        try:
            loss, logits, gradients = compute(features, labels)
        finally:
            for v, value in zip(model.non_trainable_variables, before):
                v.assign(value)
        return _named(model, loss, logits, gradients)

    return answer


def answers_and_moves(model, optimizer) -> Callable:
    """Returns `(state, features, labels) -> {"loss", "logits", "gradient/<variable>", "step of <variable or slot>"}`: of one
    training step from a state, see `get_state`, and its `moves`. Model and optimizer are left as after the step.
    """
    step = untraced_step(model, optimizer)

    @tf.function(autograph=False)
    def compute(features, labels):
        return _dense(*step(features, labels))

    def answer(state, features, labels) -> dict[str, np.ndarray]:
        set_state(state, model, optimizer)
        found = _named(model, *compute(features, labels))
        return found | moves(state, get_state(model, optimizer))

    return answer


def _dense(loss, logits, gradients) -> tuple:
    return loss, logits, [None if g is None else tf.convert_to_tensor(g) for g in gradients]


def _named(model, loss, logits, gradients) -> dict[str, np.ndarray]:
    named = zip(model.trainable_variables, gradients)
    found = {f"gradient/{v.path}": g.numpy() for v, g in named if g is not None}
    return {"loss": loss.numpy(), "logits": logits.numpy()} | found


def rounded_randomly(state: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """`state` with each weight changed by one float32 rounding, up or down at random.

    Some tensors are the small difference of large terms: the gradient of a bias before a softmax is 0 except for rounding. How
    far the model's own answers move from this state shows how well such a tensor is determined. Another order of sums can't agree
    better.
    """
    rng = np.random.default_rng(seed)
    moved = {}
    for name, value in state.items():
        weight = name.startswith("model/") and value.dtype == np.float32
        moved[name] = np.nextafter(value, rng.choice(np.float32([-np.inf, np.inf]), value.shape)) if weight else value
    return moved


def determined(
    answered: Callable[[dict], dict], state: dict[str, np.ndarray], expected: dict[str, np.ndarray], least: dict | None = None
) -> dict[str, float]:
    """The tolerance of each tensor: `least`, else TOLERANCE; or, if larger, ROUNDINGS times its change under rounded weights.

    Args:
        answered: the baseline's answers from a state; expected: those from `state`.
        least: {tensor: its least tolerance}, for the tensors that need a tolerance; None: all tensors that are not 0 except for
            rounding.
    Raises:
        CtrlabError: an expected tensor has a number that is not finite, or gets one from the weights' rounding, or is 0 and the
            rounding changes it. Its tolerance would be infinite, and hide every error.
    """
    for key, value in expected.items():
        if odd := np.count_nonzero(~np.isfinite(value)):
            raise CtrlabError(
                f"Answers are compared with finite ones; the baseline's {key!r} has {odd} of {value.size} numbers that are not. "
                "Look for a loss or a weight that overflows, or take another batch."
            )
    tolerances = dict(least or dict.fromkeys(expected.keys() - zeros_of(expected).keys(), TOLERANCE))
    for seed in range(3):
        rounded = answered(rounded_randomly(state, seed))
        for key in tolerances:
            if (moved := distance(expected[key], rounded[key])) == np.inf:
                now = "no longer 0" if np.all(np.isfinite(rounded[key])) else "not finite"
                raise CtrlabError(
                    "Answers are compared where rounding decides little; with weights that are rounded otherwise the baseline's "
                    f"{key!r} is {now}. Take another batch."
                )
            tolerances[key] = max(tolerances[key], ROUNDINGS * moved)
    return tolerances


def moves(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The changes of one step, {"step of <variable or slot>": after - before}. Adam's weight changes are multiplied by sqrt(v).

    Adam moves an entry by m / sqrt(v), so an entry whose gradient is rounding noise moves by noise of full size. Multiplied by
    sqrt(v) the move becomes m, which is as well conditioned as the gradient.
    """
    return {f"step of {key}": _metric(key, after) * (after[key] - before[key]) for key in after}


def move_tolerance(key: str, state: dict[str, np.ndarray], moved: dict[str, np.ndarray]) -> float:
    """The tolerance of one change. It is a difference of two float32 numbers, so it is only as accurate as their last digits:
    Adam's v moves by a thousandth of itself, and a weight whose gradient keeps changing its sign moves by less."""
    name, metric = key.removeprefix("step of "), 1.0
    if not np.any(moved[key]):
        return STEP_TOLERANCE
    if name.startswith("model/"):
        metric = _metric(name, {k: state[k] + moved.get(f"step of {k}", 0) for k in state})
    rounding = np.finfo(np.float32).eps * np.linalg.norm(metric * state[name])
    return max(STEP_TOLERANCE, ROUNDINGS * rounding / np.linalg.norm(moved[key].astype(np.float64)))


def _metric(key: str, state: dict[str, np.ndarray]) -> np.ndarray | float:
    slot = "optimizer/adam_async/" + key.removeprefix("model/").replace("/", "_") + "_v"
    return np.sqrt(state[slot]) if key.startswith("model/") and slot in state else 1.0


def zeros_of(answers: dict[str, np.ndarray]) -> dict[str, str]:
    """{tensor that is 0 except for rounding: tensor in comparison with which it must be negligible}."""
    return {key: key.replace(bias, kernel) for key in answers for bias, kernel in ZERO.items() if bias in key}


def differences(expected: dict[str, np.ndarray], received: dict[str, np.ndarray], tolerances) -> list[Difference]:
    """Like `compare`, and also the tensors that should be 0 but are not."""
    zeros = zeros_of(expected)
    found = compare(*({k: v for k, v in a.items() if k not in zeros} for a in (expected, received)), tolerances)
    for key, kernel in zeros.items():
        whole = key in received and received[key].shape == expected[key].shape
        size = np.linalg.norm(received[key]) / np.linalg.norm(expected[kernel]) if whole else np.inf
        if not size <= NEGLIGIBLE:
            found.append(Difference(key, float(size)))
    return sorted(found, key=lambda d: -d.relative)

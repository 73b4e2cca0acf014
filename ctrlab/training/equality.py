"""Same weights, same answers: does a set of optimizations compute what the baseline computes?

From one saved state, both take the same batch; loss, logits and every gradient tensor must agree, and so must every variable
and slot after the step. Tensors are compared norm-wise: |a - b| / |a|, since a single small entry says nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ctrlab.training.state import get_state, set_state
from ctrlab.training.step import gradients_of

TOLERANCE = 1e-5  # float32 rounds at 6e-8; sums over a batch in another order reach some 1e-6
# A move is the difference of two float32 weights: with weights of .25 and moves of .001 that rounds at 1.5e-5.
STEP_TOLERANCE = 1e-4
ROUNDINGS = 4  # one rounding of the weights is a sample of what rounding does; another order of sums is as many more
# A bias before a softmax moves all scores of a row alike, which changes nothing: its gradient, and with it all that the optimizer
# makes of it, is 0. What comes out instead is rounding, without a digit to compare, so it is held to be nothing beside what its
# layer's kernel gets.
ZERO = {"attention/dense_2/bias": "attention/dense_2/kernel", "attention_dense_2_bias": "attention_dense_2_kernel"}
NOTHING = 1e-3


@dataclass(frozen=True)
class Difference:
    """A tensor that two models disagree on: `relative` is the norm-wise distance, or inf where only one has the tensor."""

    tensor: str
    relative: float


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """|a - b| / |a|; 0 where both are zero, inf where shapes differ or a number is not finite."""
    if a.shape != b.shape or not (np.all(np.isfinite(a)) and np.all(np.isfinite(b))):
        return float("inf")
    gap, size = np.linalg.norm((a.astype(np.float64) - b).ravel()), np.linalg.norm(a.astype(np.float64).ravel())
    return 0.0 if gap == 0 else float(gap / size) if size else float("inf")


def compare(
    expected: dict[str, np.ndarray], received: dict[str, np.ndarray], tolerance: float | dict[str, float] = TOLERANCE
) -> list[Difference]:
    """The tensors that differ by more than `tolerance` (one for all, or one a tensor), worst first."""
    inf = float("inf")
    gaps = {k: distance(expected[k], received[k]) if k in expected and k in received else inf for k in {*expected, *received}}
    allowed = tolerance if isinstance(tolerance, dict) else dict.fromkeys(gaps, tolerance)
    return sorted((Difference(k, gap) for k, gap in gaps.items() if gap > allowed.get(k, TOLERANCE)), key=lambda d: -d.relative)


def answers(model) -> Callable:
    """`(features, labels) -> {"loss", "logits", "gradient/<variable>"}` from the present state, which it leaves as it is."""

    @tf.function
    def compute(features, labels):
        loss, logits, gradients = gradients_of(model, features, labels)
        return loss, logits, [None if g is None else tf.convert_to_tensor(g) for g in gradients]

    def answer(features, labels) -> dict[str, np.ndarray]:
        before = get_state(model)  # batch norm's moving statistics change in a training-mode pass
        loss, logits, gradients = compute(features, labels)
        set_state(before, model)
        named = zip(model.trainable_variables, gradients)
        found = {f"gradient/{v.path}": g.numpy() for v, g in named if g is not None}
        return {"loss": loss.numpy(), "logits": logits.numpy()} | found

    return answer


def rounded_anew(state: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """`state` with each weight moved by one rounding of float32, up or down at random.

    Some tensors are what is left when large terms cancel: the gradient of a bias before a softmax is 0 but for rounding. How
    far a model's own answers move from this state says how well a tensor is determined; no other order of sums agrees better.
    """
    rng = np.random.default_rng(seed)
    moved = {}
    for name, value in state.items():
        weight = name.startswith("model/") and value.dtype == np.float32
        moved[name] = np.nextafter(value, rng.choice(np.float32([-np.inf, np.inf]), value.shape)) if weight else value
    return moved


def after_step(model, optimizer, step, features, labels) -> dict[str, np.ndarray]:
    """Every variable and slot after one step from the present state; the state is put back."""
    before = get_state(model, optimizer)
    step(features, labels)
    after = get_state(model, optimizer)
    set_state(before, model, optimizer)
    return after


def moves(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What a step did, {"step of <variable or slot>": after - before}; a weight's move under Adam times sqrt(v).

    Adam moves an entry by m / sqrt(v), so one whose gradient is rounding noise moves by noise of full size; m itself, the
    move times sqrt(v), is as well conditioned as the gradient.
    """
    return {f"step of {key}": _metric(key, after) * (after[key] - before[key]) for key in after}


def move_tolerance(key: str, state: dict[str, np.ndarray], moved: dict[str, np.ndarray]) -> float:
    """A move is the difference of two float32 numbers, and no better determined than their last digits: Adam's v moves by a
    thousandth of itself, a weight whose gradient keeps changing its sign by less."""
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
    """{what is 0 but for rounding: what it has to be nothing beside}."""
    return {key: key.replace(bias, kernel) for key in answers for bias, kernel in ZERO.items() if bias in key}


def differences(expected: dict[str, np.ndarray], received: dict[str, np.ndarray], tolerances) -> list[Difference]:
    """As `compare`; and those tensors that should be 0 and are not."""
    zeros = zeros_of(expected)
    found = compare(*({k: v for k, v in a.items() if k not in zeros} for a in (expected, received)), tolerances)
    for key, kernel in zeros.items():
        whole = key in received and received[key].shape == expected[key].shape
        size = np.linalg.norm(received[key]) / np.linalg.norm(expected[kernel]) if whole else np.inf
        if not size <= NOTHING:
            found.append(Difference(key, float(size)))
    return sorted(found, key=lambda d: -d.relative)

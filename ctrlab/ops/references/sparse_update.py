"""The definition of `ctrlab.ops.sparse_update`, in NumPy, float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.ops.references import merge
from ctrlab.ops.references.arrays import Slices, Variable, normal
from ctrlab.profiling.work import Work

SMALLEST_RATE = np.finfo(np.float32).tiny

FTRL_RATE = "FTRL divides by its learning rate, which must be above 0 and no denormal"

KINDS = ("sgd", "adagrad", "ftrl", "adam_async")


@dataclass(frozen=True)
class Rule:
    """An optimizer: its kind and numbers. `slots` names the state kept for each variable, with its initial value."""

    kind: str
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    l1: float = 0.0
    l2: float = 0.0
    initial_accumulator: float = 0.1

    @property
    def slots(self) -> dict[str, float]:
        return {
            "sgd": {},
            "adagrad": {"accumulator": self.initial_accumulator},
            "ftrl": {"accumulator": self.initial_accumulator, "linear": 0.0},
            "adam_async": {"m": 0.0, "v": 0.0},
        }[self.kind]

    def numbers(self, clip_norm: float | None) -> np.ndarray:
        """The numbers in the order of the compiled ops, float64 [6]."""
        return np.array([self.beta1, self.beta2, self.epsilon, self.l1, self.l2, clip_norm or 0.0])


def clipped(gradient: np.ndarray, norm: float | None) -> np.ndarray:
    """The gradient, scaled down to an L2 norm of `norm` if it has a larger one; unchanged for None."""
    if norm is None:
        return gradient
    length = np.sqrt(np.sum(np.square(gradient, dtype=np.float64)))
    return gradient * (norm / length) if length > norm else gradient


def check_rate(rule: Rule, learning_rate: float, step: int) -> None:
    """Raises CtrlabError if FTRL's learning rate is not above 0."""
    if rule.kind == "ftrl" and not learning_rate >= SMALLEST_RATE:
        raise CtrlabError(f"{FTRL_RATE}; received {learning_rate:g} in step {step}: let a warm-up begin above 0.")


def reference(rule: Rule, updates, learning_rate: float, step: int, clip_norm: float | None = None) -> None:
    """One step in NumPy float64, in place.

    Args:
        updates: (w, {name: slot}, gradient) for each variable: w and its slots float64 of any shape; the gradient is dense, or
            (ids, rows) before merging, where ids may repeat.
        step: 1 for the first.
        clip_norm: the maximum L2 norm of a variable's merged gradient; None for no clipping.
    Raises:
        CtrlabError: FTRL's learning rate is not above 0.
    """
    check_rate(rule, learning_rate, step)
    for w, slots, gradient in updates:
        if not isinstance(gradient, tuple):
            _step(rule, w, slots, clipped(gradient, clip_norm), learning_rate, step)
            continue
        ids, rows = merge.reference(Slices(*gradient))
        touched = w[ids]
        part = {name: slot[ids] for name, slot in slots.items()}
        _step(rule, touched, part, clipped(rows, clip_norm), learning_rate, step)
        w[ids] = touched
        for name, slot in slots.items():
            slot[ids] = part[name]


def _step(rule: Rule, w, slots: dict, gradient, learning_rate: float, step: int) -> None:
    """Steps all of `w` and its slots, in place."""
    g = gradient.astype(np.float64)
    if rule.kind == "sgd":
        w -= learning_rate * g
    elif rule.kind == "adagrad":
        slots["accumulator"] += g * g
        w -= learning_rate * g / np.sqrt(slots["accumulator"])
    elif rule.kind == "ftrl":
        n = slots["accumulator"] + g * g
        z = slots["linear"] + g - (np.sqrt(n) - np.sqrt(slots["accumulator"])) / learning_rate * w
        w[...] = np.where(np.abs(z) <= rule.l1, 0.0, (np.sign(z) * rule.l1 - z) / (np.sqrt(n) / learning_rate + 2 * rule.l2))
        slots["accumulator"][...], slots["linear"][...] = n, z
    else:
        slots["m"][...] = rule.beta1 * slots["m"] + (1 - rule.beta1) * g
        slots["v"][...] = rule.beta2 * slots["v"] + (1 - rule.beta2) * g * g
        rate = learning_rate * np.sqrt(1 - rule.beta2**step) / (1 - rule.beta1**step)
        w -= rate * slots["m"] / (np.sqrt(slots["v"]) + rule.epsilon)


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    rules = {
        "sgd": Rule("sgd"),
        "adagrad": Rule("adagrad"),
        "ftrl": Rule("ftrl"),
        "ftrl that shrinks": Rule("ftrl", l1=0.02, l2=0.3),
        "adam_async": Rule("adam_async"),
        "adam_async with other numbers": Rule("adam_async", beta1=0.5, beta2=0.9, epsilon=1e-3),
    }

    def update(rule, shape, ids=None):
        slots = {name: np.full(shape, np.float32(value), np.float64).view(Variable) for name, value in rule.slots.items()}
        gradient = normal(rng, *shape) if ids is None else Slices(np.array(ids, np.int64), normal(rng, len(ids), *shape[1:]))
        return normal(rng, *shape).view(Variable), slots, gradient

    def case(rule, step=1.0, clip=None):
        updates = [update(rule, (8, 3), [0, 3, 7]), update(rule, (7,)), update(rule, (5, 4), []), update(rule, (2, 3, 33))]
        return rule, updates, float(np.float32(0.05)), step, clip

    found = {f"{name}, random": case(rule) for name, rule in rules.items()}
    found |= {f"{name}, clipped in its third step": case(rule, 3.0, 0.5) for name, rule in rules.items()}
    return found | {"no ids": (rules["adagrad"], [update(rules["adagrad"], (5, 4), [])], 0.05, 1.0)}


def work(weights: float, slots: int) -> Work:
    """The step on `weights` dense weights: it reads the gradient and reads and writes weight and slots."""
    return Work(flops=10.0 * weights, bytes=4.0 * weights * (1 + 2 * (1 + slots)))


def rows_work(rows: float, dim: int, slots: int) -> Work:
    """The step on rows that a lookup has just brought into the cache: every slot row is still read from memory."""
    return Work(flops=10.0 * rows * dim, random_rows=rows * slots, row_bytes=4 * dim)

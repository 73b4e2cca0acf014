"""Checks of 02_ops/09_experts: (1) the first layer of experts and gates as one product, (2) the kernel of the mixture."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from ctrlab.lessons.exercise import Close, Each, Exercise
from ctrlab.lessons.limits import NoAllocation, Traced
from ctrlab.ops import mixture

ROWS, INPUTS, OUTPUTS, EXPERTS, TASKS = 32, 24, 16, 4, 2


def shapes(rng: np.random.Generator) -> Iterator[tuple[str, int, int, int, int, int]]:
    """The cases: (description, B, I, O, E, K)."""
    for _ in range(3):
        yield "random sizes", *(int(rng.integers(2, most)) for most in (9, 12, 9, 6, 5))
    yield "one expert", 5, 4, 3, 1, 2
    yield "one task", 5, 4, 3, 3, 1
    yield "one number in, one out", 5, 1, 1, 3, 2
    yield "a batch of one row", 1, 6, 5, 4, 2
    yield "a batch of no rows", 0, 6, 5, 4, 2


def layer(rng: np.random.Generator, rows: int, inputs: int, outputs: int, experts: int, tasks: int) -> tuple:
    """x [B, I], kernel [E, I, O], K gates [I, E]; float32."""
    x, kernel = rng.standard_normal((rows, inputs)), rng.standard_normal((experts, inputs, outputs))
    gates = [tf.constant(rng.standard_normal((inputs, experts)), tf.float32) for _ in range(tasks)]
    return tf.constant(x, tf.float32), tf.constant(kernel, tf.float32), gates


def first_layer(x: tf.Tensor, kernel: tf.Tensor, gates: list[tf.Tensor]) -> tuple[np.ndarray, np.ndarray]:
    """The definition, float32 [E, B, O] and [B, K * E]."""
    x = x.numpy().astype(np.float64)
    logits = np.concatenate([x @ gate.numpy() for gate in gates], axis=1)
    return np.stack([x @ one for one in kernel.numpy()]).astype(np.float32), logits.astype(np.float32)


WIDTH = EXPERTS * OUTPUTS + TASKS * EXPERTS


def mixture_of(rng: np.random.Generator, x: tf.Tensor, kernels: list[tf.Tensor], width: int) -> tuple:
    """x, the experts' outputs [E, B, width], kernels, biases; float32."""
    experts = kernels[0].shape[1]
    said = tf.constant(rng.standard_normal((experts, x.shape[0], width)), tf.float32)
    return x, said, kernels, [tf.constant(rng.standard_normal(experts), tf.float32) for _ in kernels]


def mixtures(rng: np.random.Generator) -> Iterator[tuple]:
    """The cases: (description, x, said, kernels, biases)."""
    for case, *sizes in shapes(rng):
        x, _, kernels = layer(rng, *sizes)
        yield case, *mixture_of(rng, x, kernels, sizes[2])
    x, _, kernels = layer(rng, 4, 5, 3, 3, 2)
    yield "logits of hundreds", *mixture_of(rng, 100 * x, kernels, 3)


def few_and_many(rng: np.random.Generator) -> list[tuple]:
    x, *_ = layer(rng, 4, 5, 3, 3, 2)
    return [mixture_of(rng, x, layer(rng, 4, 5, 3, experts, 2)[2], width) for experts, width in ((3, 4), (100, 300))]


BUDGET = Traced(
    rule="one matrix product in all, and no tensor larger than its result or its kernel",
    largest_elements=max(ROWS, INPUTS) * WIDTH,
    ops={"MatMul|Einsum|Conv": 1},
    of=f"B = {ROWS}, I = {INPUTS}, O = {OUTPUTS}, E = {EXPERTS} and K = {TASKS}",
    on=lambda rng: layer(rng, ROWS, INPUTS, OUTPUTS, EXPERTS, TASKS),
    next_step="put all kernels side by side, and multiply once",
)
CHECKS = {
    1: Exercise(
        asks="first_layer(x, kernel, gates): float32 [B, I], [E, I, O], K of [I, E] -> float32 [E, B, O] and [B, K * E]",
        cases=lambda rng: ((case, *layer(rng, *sizes)) for case, *sizes in shapes(rng)),
        reference=first_layer,
        compare={
            "said": Close("columns e * O to (e + 1) * O of the product are expert e's"),
            "logits": Close("a task has the logits of its own gate, one per expert: which columns of your product are they?"),
        },
        limits=[BUDGET],
        run_it="the number of rows may be 0; all other sizes are static",
    ),
    2: Exercise(
        asks="the op `answer(x, experts, kernels, biases)` with the learner's kernel inside: a list of float32 [B, O]",
        kernel="mixture",
        cases=mixtures,
        reference=mixture.OP.reference,
        compare=Each(
            "mixture",
            Close("subtract the largest logit, exponentiate, divide by the sum; then weigh what each expert says", rtol=1e-4),
        ),
        limits=[
            NoAllocation(
                "mixture",
                sizes="4 rows of E = 3 and 4 of E = 100",
                on=few_and_many,
                next_step="`gate` and `mixed` have room for all you compute",
            )
        ],
    ),
}

"""Checks of 02_ops/10_mixed_precision: (1) a layer whose product is bfloat16, (2) the update of float32 master weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from ctrlab.lessons.budget import spend
from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.exercise import Close, Exercise, tensors
from ctrlab.lessons.limits import Stated, Traced

ROWS, INPUTS, UNITS = 32, 24, 16
PRODUCT = "MatMul|Einsum"
HALF = 2e-2  # norm-wise; bfloat16 rounds at 2^-8 = 4e-3, here a few times in a row


def rounded(x: np.ndarray) -> np.ndarray:
    """Rounds numbers to bfloat16, and converts them back to float32."""
    return tf.cast(tf.cast(tf.constant(x), tf.bfloat16), tf.float32).numpy()


def layers(rng: np.random.Generator) -> Iterator[tuple]:
    """The cases: (description, x, kernel, bias)."""

    def layer(rows, inputs, units, factor=1.0):
        shapes = (rows, inputs), (inputs, units), (units,)
        x, kernel, bias = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
        return [np.float32(factor) * x, kernel, np.float32(factor) * bias]

    for _ in range(3):
        yield "a random layer", *layer(*(int(n) for n in rng.integers(2, 40, 3)))
    yield "a batch of one row", *layer(1, 7, 3)
    yield "one unit", *layer(9, 5, 1)
    yield "numbers past float16's range", *layer(6, 5, 4, 1e6)
    yield "numbers below float16's range", *layer(6, 5, 4, 1e-9)


def layer_of(x, kernel, bias) -> np.ndarray:
    """relu(x kernel + bias) of rounded numbers, summed in float64, as float32."""
    x, kernel, bias = (rounded(a).astype(np.float64) for a in (x, kernel, bias))
    return np.maximum(x @ kernel + bias, 0).astype(np.float32)


def layer_in(dtype: tf.DType | None = None, relu: bool = True, biased: bool = True) -> Callable:
    """A mistake: a layer in another type, or without one of its parts."""

    def made(x, kernel, bias) -> tuple[np.ndarray, None]:
        x, kernel, bias = (tf.cast(t, dtype or tf.bfloat16) for t in (x, kernel, bias if biased else np.zeros_like(bias)))
        out = tf.cast(tf.matmul(x, kernel) + bias, tf.float32).numpy()
        return np.maximum(out, 0) if relu else out, None

    return made


def with_gradients(answer: Callable) -> Callable:
    """The answer and its gradients: result, [d_x, d_kernel, d_bias]."""

    def both(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            result = answer(*inputs)
        return result, tape.gradient(result, inputs) if tf.is_tensor(result) else None

    return both


def in_float32(gradients: Sequence | None, _, case: str, question: Sequence) -> None:
    for name, gradient, array in zip(("x", "kernel", "bias"), gradients or 3 * [None], question):
        if gradient is None or gradient.dtype != tf.float32 or gradient.shape != array.shape:
            raise CheckFailed(
                f"Gradients come out in float32, too, each of its tensor's shape; here {case}.",
                expected=f"a float32 gradient of {name}, {list(array.shape)}",
                received="no gradient" if gradient is None else f"{gradient.dtype.name} {list(gradient.shape)}",
                next_step="let the casts be part of the function: their gradients are casts back",
            )


def of_layer(rng: np.random.Generator) -> tuple:
    return tuple(tf.constant(rng.standard_normal(s), tf.float32) for s in ((ROWS, INPUTS), (INPUTS, UNITS), (UNITS,)))


def multiplies_bfloat16(answer: Callable, rng: np.random.Generator) -> None:
    dtypes = spend(answer, *of_layer(rng)).dtypes
    found = ", ".join(sorted({dtype for op, of_op in dtypes.items() if re.search(PRODUCT, op) for dtype in of_op}))
    if found != "bfloat16":
        raise CheckFailed(
            "The product runs in bfloat16.",
            wrong=f"The product runs in {found}." if found else "The graph has no matrix product.",
            expected="a product in bfloat16",
            received=found or "no product",
            next_step="cast both factors before the product",
        )


def updates(rng: np.random.Generator) -> Iterator[tuple]:
    """The cases: (description, weight, gradient, rate, clip)."""

    def draw(shape, size=1.0):
        return (size * rng.standard_normal(shape)).astype(np.float32)

    shape = tuple(int(n) for n in rng.integers(2, 30, 2))
    yield "a gradient that is not clipped", *(draw(shape), rounded(draw(shape, 1e-3)), 0.1, 5.0)
    yield "a gradient longer than clip", *(draw(shape), rounded(draw(shape, 100)), 0.1, 5.0)
    yield "weights of 0, so that the update is all there is", *(np.zeros((60, 50), np.float32), rounded(draw((60, 50))), 1.0, 5.0)
    yield "updates far smaller than the weights", *(np.ones(shape, np.float32), rounded(draw(shape, 1e-3)), 0.1, 5.0)
    yield "a gradient of zeros", *(draw(shape), np.zeros(shape, np.float32), 0.1, 5.0)
    yield "one weight", *(draw((1, 1)), rounded(draw((1, 1), 9)), 0.5, 2.0)


def update_of(weight, gradient, rate, clip) -> np.ndarray:
    gradient = gradient.astype(np.float64)
    norm = np.linalg.norm(gradient)
    return (weight - rate * gradient * (clip / norm if norm > clip else 1.0)).astype(np.float32)


def with_move(answer: Callable) -> Callable:
    """The new weights, and their change. The change is compared separately, because a lost update is small beside the weights'
    norm.
    """

    def both(weight, gradient, rate, clip):
        new = answer(weight, gradient, rate, clip)
        return new, (np.asarray(new, np.float64) - weight.numpy()).astype(np.float32) if tf.is_tensor(new) else None

    return both


def moved(weight, gradient, rate, clip) -> tuple[np.ndarray, np.ndarray]:
    new = update_of(weight, gradient, rate, clip)
    return new, new - weight


def update_without_clip(weight, gradient, rate, clip) -> tuple[np.ndarray, np.ndarray]:
    """A mistake: the gradient as it came."""
    return moved(weight, gradient, rate, np.inf)


def update_by_value(weight, gradient, rate, clip) -> tuple[np.ndarray, np.ndarray]:
    """A mistake: each number is cut off, and not the norm."""
    return moved(weight, np.clip(gradient, -clip, clip), rate, np.inf)


def update_by_rounded_norm(weight, gradient, rate, clip) -> tuple[np.ndarray, np.ndarray]:
    """A mistake: the gradient is clipped before its cast."""
    clipped = tf.cast(tf.clip_by_norm(tf.cast(gradient, tf.bfloat16), clip), tf.float32).numpy()
    return moved(weight, clipped, rate, np.inf)


def update_in_bfloat16(weight, gradient, rate, clip) -> tuple[np.ndarray, np.ndarray]:
    """A mistake: the new weight is rounded, too."""
    new = rounded(update_of(weight, gradient, rate, clip))
    return new, new - weight


CAST = "cast the gradient to float32 first; then the norm of all its entries, then the scale"
LAYER = Traced(
    rule="one matrix product, in bfloat16, and at most four casts",
    ops={PRODUCT: 1, "Cast": 4},
    on=of_layer,
    of=f"B = {ROWS}, I = {INPUTS} and O = {UNITS}",
    next_step="tf.matmul takes two bfloat16 tensors; which casts of yours change nothing?",
)
UPDATE = Traced(
    rule="one cast, and nothing else in bfloat16",
    ops={"Cast": 1},
    on=lambda rng: (tf.ones([8, 8]), tf.ones([8, 8], tf.bfloat16), 0.1, 5.0),
    of="8 x 8 weights",
    next_step="one tf.cast of the gradient",
)
CHECKS = {
    1: Exercise(
        asks="bf16_dense(x, kernel, bias): float32 [B, I], [I, O], [O] -> float32 [B, O]",
        cases=layers,
        reference=lambda *inputs: (layer_of(*inputs), None),
        given=tensors,
        ask=with_gradients,
        compare={"result": Close("cast in, compute, cast out", rtol=HALF), "gradients": in_float32},
        mistakes={
            "This is a layer in float16, whose range is too small for it": layer_in(tf.float16),
            "This is a layer without its ReLU": layer_in(relu=False),
            "This is a layer without its bias": layer_in(biased=False),
        },
        limits=[LAYER, Stated("the product in bfloat16", multiplies_bfloat16)],
    ),
    2: Exercise(
        asks="clipped_update(weight, gradient, rate, clip): float32 and bfloat16 of one shape -> the new weight, float32",
        cases=updates,
        reference=moved,
        given=lambda weight, gradient, *rest: (tf.constant(weight), tf.cast(gradient, tf.bfloat16), *rest),
        ask=with_move,
        compare={"weight": Close(CAST, rtol=1e-6), "the change (new weight minus old)": Close(CAST, rtol=1e-3)},
        mistakes={
            "The gradient is not clipped": update_without_clip,
            "Each number is cut off at `clip`, and not the norm": update_by_value,
            "The norm is not that of the float32 gradient": update_by_rounded_norm,
            "The new weight is rounded to bfloat16": update_in_bfloat16,
        },
        limits=[UPDATE],
    ),
}

"""Checks of 02_ops/10_mixed_precision: (1) a layer whose product is bfloat16, (2) the update of float32 master weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.exercise import Close, Exercise, Traced, tensors

ROWS, INPUTS, UNITS = 32, 24, 16
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
                received="none" if gradient is None else f"{gradient.dtype.name} {list(gradient.shape)}",
                next_step="let the casts be part of the function: their gradients are casts back",
            )


def of_layer(rng: np.random.Generator) -> tuple:
    return tuple(tf.constant(rng.standard_normal(s), tf.float32) for s in ((ROWS, INPUTS), (INPUTS, UNITS), (UNITS,)))


def multiplies_bfloat16(answer: Callable, rng: np.random.Generator) -> None:
    graph = tf.function(answer).get_concrete_function(*of_layer(rng)).graph
    types = [op.outputs[0].dtype.name for op in graph.get_operations() if op.type == "MatMul"]
    if types != ["bfloat16"]:
        raise CheckFailed(
            "The product runs in bfloat16.",
            expected="a MatMul in bfloat16",
            received=types or "no MatMul",
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


CAST = "cast the gradient to float32 first; then the norm of all its entries, then the scale"
LAYER = Traced(
    rule="one MatMul, in bfloat16, and four casts",
    ops={"MatMul": 1, "Cast": 4, "Einsum": 0, "XlaDot": 0},
    on=of_layer,
    next_step="tf.matmul of two bfloat16 tensors; cast x, kernel, bias, and the result",
)
UPDATE = Traced(
    rule="one cast, and nothing else in bfloat16",
    ops={"Cast": 1},
    on=lambda rng: (tf.ones([8, 8]), tf.ones([8, 8], tf.bfloat16), 0.1, 5.0),
    next_step="one tf.cast of the gradient",
)
CHECKS = {
    1: Exercise(
        asks="half_dense(x, kernel, bias): float32 [B, I], [I, O], [O] -> float32 [B, O]",
        cases=layers,
        reference=lambda *inputs: (layer_of(*inputs), None),
        given=tensors,
        ask=with_gradients,
        compare={"result": Close("cast in, compute, cast out; bfloat16, not float16", rtol=HALF), "gradients": in_float32},
        limits=[LAYER, multiplies_bfloat16],
    ),
    2: Exercise(
        asks="clipped_update(weight, gradient, rate, clip): float32 and bfloat16 of one shape -> the new weight, float32",
        cases=updates,
        reference=moved,
        given=lambda weight, gradient, *rest: (tf.constant(weight), tf.cast(gradient, tf.bfloat16), *rest),
        ask=with_move,
        compare={"weight": Close(CAST, rtol=1e-6), "the move alone": Close(CAST, rtol=1e-3)},
        limits=[UPDATE],
    ),
}

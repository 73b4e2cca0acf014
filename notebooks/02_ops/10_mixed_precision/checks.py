"""Checks of 02_ops/10_mixed_precision: (1) a layer whose product is bfloat16, (2) the update of float32 master weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from ctrlab.lessons.budget import Budget
from ctrlab.lessons.check import CheckFailed, call, require_close

ROWS, INPUTS, UNITS = 32, 24, 16
HALF = 2e-2  # norm-wise; bfloat16 rounds at 2^-8 = 4e-3, here a few times in a row


def rounded(x: np.ndarray) -> np.ndarray:
    """To bfloat16 and back."""
    return tf.cast(tf.cast(tf.constant(x), tf.bfloat16), tf.float32).numpy()


def layers(rng: np.random.Generator) -> Iterator[tuple[str, list[np.ndarray]]]:
    """(what it is, x, kernel, bias)."""

    def layer(rows, inputs, units, factor=1.0):
        shapes = (rows, inputs), (inputs, units), (units,)
        x, kernel, bias = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
        return [np.float32(factor) * x, kernel, np.float32(factor) * bias]

    for _ in range(3):
        yield "a random layer", layer(*(int(n) for n in rng.integers(2, 40, 3)))
    yield "a batch of one row", layer(1, 7, 3)
    yield "one unit", layer(9, 5, 1)
    yield "numbers past float16's range", layer(6, 5, 4, 1e6)
    yield "numbers below float16's range", layer(6, 5, 4, 1e-9)


def layer_of(x, kernel, bias) -> np.ndarray:
    """relu(x kernel + bias) of rounded numbers, summed in float64, as float32."""
    x, kernel, bias = (rounded(a).astype(np.float64) for a in (x, kernel, bias))
    return np.maximum(x @ kernel + bias, 0).astype(np.float32)


LAYER = Budget(
    rule="one MatMul, in bfloat16, and four casts",
    ops={"MatMul": 1, "Cast": 4, "Einsum": 0, "XlaDot": 0},
)


def check_layer(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `half_dense(x, kernel, bias)`."""
    for case, inputs in layers(rng):
        tensors = [tf.constant(a) for a in inputs]
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            received = call(answer, *tensors, case=case)
        step = "cast in, compute, cast out; bfloat16, not float16"
        require_close(received, layer_of(*inputs), case=case, next_step=step, rtol=HALF)
        for name, gradient, tensor in zip(("x", "kernel", "bias"), tape.gradient(received, tensors), tensors):
            if gradient is None or gradient.dtype != tf.float32:
                raise CheckFailed(
                    "Gradients come out in float32, too.",
                    expected=f"a float32 gradient of {name}",
                    received="none" if gradient is None else gradient.dtype.name,
                    next_step="let the casts be part of the function: their gradients are casts back",
                )
            if gradient.shape != tensor.shape:
                raise CheckFailed(
                    "A gradient has the shape of its tensor.",
                    expected=tensor.shape,
                    received=gradient.shape,
                    next_step="no reshape is needed",
                )
    tensors = [tf.constant(rng.standard_normal(s), tf.float32) for s in ((ROWS, INPUTS), (INPUTS, UNITS), (UNITS,))]
    LAYER.enforce(answer, *tensors, next_step="tf.matmul of two bfloat16 tensors; cast x, kernel, bias, and the result")
    graph = tf.function(answer).get_concrete_function(*tensors).graph
    types = [op.outputs[0].dtype.name for op in graph.get_operations() if op.type == "MatMul"]
    if types != ["bfloat16"]:
        raise CheckFailed(
            "The product runs in bfloat16.",
            expected="a MatMul in bfloat16",
            received=types or "no MatMul",
            next_step="cast both factors before the product",
        )


def updates(rng: np.random.Generator) -> Iterator[tuple[str, tuple]]:
    """(what it is, weight, gradient, rate, clip)."""

    def draw(shape, size=1.0):
        return (size * rng.standard_normal(shape)).astype(np.float32)

    shape = tuple(int(n) for n in rng.integers(2, 30, 2))
    yield "a gradient that is not clipped", (draw(shape), rounded(draw(shape, 1e-3)), 0.1, 5.0)
    yield "a gradient longer than clip", (draw(shape), rounded(draw(shape, 100)), 0.1, 5.0)
    yield "weights of 0, so that the update is all there is", (np.zeros((60, 50), np.float32), rounded(draw((60, 50))), 1.0, 5.0)
    yield "updates far smaller than the weights", (np.ones(shape, np.float32), rounded(draw(shape, 1e-3)), 0.1, 5.0)
    yield "a gradient of zeros", (draw(shape), np.zeros(shape, np.float32), 0.1, 5.0)
    yield "one weight", (draw((1, 1)), rounded(draw((1, 1), 9)), 0.5, 2.0)


def update_of(weight, gradient, rate, clip) -> np.ndarray:
    gradient = gradient.astype(np.float64)
    norm = np.linalg.norm(gradient)
    return (weight - rate * gradient * (clip / norm if norm > clip else 1.0)).astype(np.float32)


UPDATE = Budget(rule="one cast, and nothing else in bfloat16", ops={"Cast": 1})


def check_update(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 2: `clipped_update(weight, gradient, rate, clip)`."""
    for case, (weight, gradient, rate, clip) in updates(rng):
        inputs = tf.constant(weight), tf.cast(gradient, tf.bfloat16), rate, clip
        received = call(answer, *inputs, case=case)
        step = "cast the gradient to float32 first; then the norm of all its entries, then the scale"
        expected = update_of(weight, gradient, rate, clip)
        require_close(received, expected, case=case, next_step=step, rtol=1e-6)
        if np.any(gradient):  # an update that is lost beside its weights is small in norm
            moved = np.asarray(received, np.float64) - weight
            require_close(
                moved.astype(np.float32), (expected - weight), case=f"the move alone, {case}", next_step=step, rtol=1e-3
            )
    UPDATE.enforce(
        lambda weight, gradient: answer(weight, gradient, 0.1, 5.0),
        tf.ones([8, 8]),
        tf.ones([8, 8], tf.bfloat16),
        next_step="one tf.cast of the gradient",
    )


CHECKS = {1: check_layer, 2: check_update}

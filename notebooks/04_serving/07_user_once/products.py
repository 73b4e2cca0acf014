"""The matrix products of a traced answer, counted: how many multiply-adds a call of it takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.limits import Traced

if TYPE_CHECKING:
    import tensorflow as tf

TRANSPOSED = {"MatMul": "transpose_a", "BatchMatMul": "adj_x", "BatchMatMulV2": "adj_x", "BatchMatMulV3": "adj_x"}
"""The ops of products, and the attribute that says that the first matrix comes transposed."""


def multiply_adds(answer: Callable, *inputs) -> int:
    """The multiply-adds of all matrix products in `answer(*inputs)`; shapes are those of a run. Products inside a loop or a call
    of a graph are not seen. A product by `tf.einsum` counts if it sums over an axis; otherwise it is not a matrix product.
    """
    import tensorflow as tf

    made: list[tf.Operation] = []

    @tf.function(autograph=False)
    def traced(*args):
        tf.config.run_functions_eagerly(True)  # from here on a tf.function adds its ops to this graph instead of a call
        answer(*args)
        made[:] = [op for op in tf.compat.v1.get_default_graph().get_operations() if op.type in {*TRANSPOSED, "Einsum"}]
        return [[tf.shape(t) for t in (*op.inputs, op.outputs[0])] for op in made]

    was = tf.config.functions_run_eagerly()
    try:
        shapes = traced.get_concrete_function(*inputs)(*inputs)
    finally:
        tf.config.run_functions_eagerly(was)
    return sum(_of(op, [[int(n) for n in shape] for shape in of_op]) for op, of_op in zip(made, shapes))


def _of(op: tf.Operation, shapes: list[list[int]]) -> int:
    *inputs, output = shapes
    if op.type != "Einsum":
        inner = inputs[0][-2 if op.get_attr(TRANSPOSED[op.type]) else -1]
        return math.prod(output) * inner
    given, _, left = op.get_attr("equation").decode().partition("->")
    sizes = {label: n for labels, shape in zip(given.split(","), inputs) for label, n in zip(labels, shape)}
    return math.prod(sizes.values()) if sizes.keys() - set(left) else 0


@dataclass(frozen=True, kw_only=True)
class FewProducts(Traced):
    """A budget of the graph, and of the multiply-adds in its matrix products; `fewer` is the next step if there are more."""

    multiply_adds: int
    fewer: str

    def numbers(self) -> str:
        return f"{super().numbers()}, at most {self.multiply_adds:,} multiply-adds in matrix products"

    def __call__(self, answer: Callable, rng: np.random.Generator) -> None:
        super().__call__(answer, rng)
        if (found := multiply_adds(answer, *self.on(rng))) > self.multiply_adds:
            most = f"at most {self.multiply_adds:,} multiply-adds in matrix products"
            wrong = f"The products take {found:,} multiply-adds, more than {self.multiply_adds:,}."
            rule = f"Budget: {self.rule}."
            raise CheckFailed(rule, wrong=wrong, expected=most, received=f"{found:,}", next_step=self.fewer)

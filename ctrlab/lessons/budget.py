"""Budgets that are enforced: an answer is traced to a graph and run once, and its ops and the tensors they make are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ctrlab.lessons.check import CheckFailed

LOOPS = frozenset({"While", "StatelessWhile", "If", "StatelessIf", "Case", "MapDefun"})
PYTHON = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless"})
CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_NOT_MADE = frozenset({"Placeholder", "Const", "NoOp", "Identity", "ReadVariableOp"})


@dataclass(frozen=True)
class Spent:
    """What one run cost.

    Attributes:
        ops: op type -> how many in the graph, the bodies of called functions included.
        bytes: of all tensors that ops made, those in a called tf.function too, constants and inputs apart.
        largest: (op type, shape) of the largest of them.
    """

    ops: Counter
    bytes: int
    largest: tuple[str, tuple[int, ...]]

    @property
    def largest_elements(self) -> int:
        return int(np.prod(self.largest[1], dtype=np.int64))


@dataclass(frozen=True)
class Budget:
    """What an answer may spend. A limit left at None is none; loops, Python calls and calls of graphs traced
    before, which hide their cost, never pass."""

    rule: str
    largest_elements: int | None = None
    bytes: int | None = None
    ops: dict[str, int] = field(default_factory=dict)

    def enforce(self, answer: Callable, *inputs, next_step: str) -> Spent:
        """Trace and run `answer(*inputs)`.

        Raises:
            CheckFailed: it cannot be traced, or it spends more than the budget.
        """
        spent = spend(answer, *inputs)

        def fail(expected, received):
            raise CheckFailed(f"Budget: {self.rule}.", expected=expected, received=received, next_step=next_step)

        for op in sorted(spent.ops.keys() & (LOOPS | PYTHON | CALLS)):
            fail("tensor ops only; no loop, no Python call and no concrete function in the graph", op)
        for op, most in self.ops.items():
            if spent.ops[op] > most:
                fail(f"at most {most} {op}", f"{spent.ops[op]} {op}")
        if self.largest_elements is not None and spent.largest_elements > self.largest_elements:
            op, shape = spent.largest
            fail(f"no tensor above {self.largest_elements:,} elements", f"{op} made {list(shape)}, {spent.largest_elements:,}")
        if self.bytes is not None and spent.bytes > self.bytes:
            fail(f"at most {self.bytes:,} bytes of tensors", f"{spent.bytes:,} bytes")
        return spent


def spend(answer: Callable, *inputs) -> Spent:
    """Trace `answer(*inputs)`, run it once and count what it makes; shapes are those of the run, not of the trace."""
    import tensorflow as tf

    made: list[tf.Operation] = []
    counted: list[Counter] = []

    @tf.function
    def traced(*args):
        was = tf.config.functions_run_eagerly()
        tf.config.run_functions_eagerly(True)  # from here on a tf.function adds its ops to this graph instead of a call
        try:
            answer(*args)
        finally:
            tf.config.run_functions_eagerly(was)
        graph = tf.compat.v1.get_default_graph()
        operations = graph.get_operations()
        counted.append(_count(graph.as_graph_def()))
        tensors = [t for op in operations if op.type not in _NOT_MADE for t in op.outputs if t.dtype.is_numpy_compatible]
        tensors = [t for t in tensors if t.dtype not in (tf.variant, tf.resource)]
        made.extend((t.op.type, t.dtype.size) for t in tensors)
        return [tf.shape(t) for t in tensors]

    try:  # traced by hand: each answer is a new function, and TensorFlow would warn of its "retracing"
        shapes = [tuple(int(n) for n in shape) for shape in traced.get_concrete_function(*inputs)(*inputs)]
    except CheckFailed:
        raise
    except Exception as error:
        raise CheckFailed(
            "The function can be traced: it is made of TensorFlow ops alone.",
            expected="a graph",
            received=f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}",
            next_step="use tf.* on the tensors; no .numpy(), no Python loop over values",
        ) from error
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in shapes]
    if not sizes:
        return Spent(counted[0], 0, ("nothing", (0,)))
    top = int(np.argmax(sizes))
    total = sum(n * each for n, (_, each) in zip(sizes, made))
    return Spent(counted[0], total, (made[top][0], shapes[top]))


def _count(graph_def) -> Counter:
    """Op types of a graph and of every function in its library."""
    nodes = Counter(node.op for node in graph_def.node)
    for function in graph_def.library.function:
        nodes.update(node.op for node in function.node_def)
    return nodes

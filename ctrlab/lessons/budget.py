"""Budgets that are enforced: an answer is traced to a graph and run once, and its ops and the tensors they make are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ctrlab.lessons.check import CheckFailed

if TYPE_CHECKING:
    import tensorflow as tf

PYTHON = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless"})
MOST_OPS = 250
"""A careful answer takes up to 100. What Python unrolls takes some for each row, and the budgets' inputs have many rows."""
_CONSTANT = frozenset({"Placeholder", "Const"})
_NOT_MADE = frozenset({"NoOp", "Identity", "ReadVariableOp"})


@dataclass(frozen=True)
class Spent:
    """What one run cost.

    Attributes:
        ops: op type -> how many in the graph, a called tf.function's included; not those of constants, inputs and variables.
        hidden: types of the ops that hide what they run: loops, branches, data sets, calls of graphs and of Python.
        bytes: of all tensors that ops made, and of the constants, wherever they were made; inputs and variables apart.
        largest: (op type, shape) of the largest of them.
    """

    ops: Counter
    hidden: frozenset[str]
    bytes: int
    largest: tuple[str, tuple[int, ...]]

    @property
    def largest_elements(self) -> int:
        return int(np.prod(self.largest[1], dtype=np.int64))


@dataclass(frozen=True)
class Budget:
    """What an answer may spend. A limit left at None is none; loops, in the graph or unrolled, and whatever else hides its cost
    never pass. `ops` limits families: "Unique" counts every type that has it in its name, such as UniqueWithCountsV2."""

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

        for op in sorted(spent.hidden):
            fail("tensor ops only; no loop, no data set, no Python call and no concrete function in the graph", op)
        if (count := spent.ops.total()) > MOST_OPS:
            fail(f"at most {MOST_OPS} ops, however many rows; no loop that Python unrolls", f"{count:,} ops")
        for family, most in self.ops.items():
            found = {op: n for op, n in spent.ops.items() if family in op}
            if sum(found.values()) > most:
                fail(f"at most {most} {family}", ", ".join(f"{n} {op}" for op, n in sorted(found.items())))
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

    @tf.function
    def traced(*args):
        tf.config.run_functions_eagerly(True)  # from here on a tf.function adds its ops to this graph instead of a call
        answer(*args)
        given = {id(t) for t in tf.nest.flatten(args, expand_composites=True)}
        # A placeholder that was not given is a constant that the answer holds, or made in tf.init_scope.
        made[:] = [op for op in tf.compat.v1.get_default_graph().get_operations() if not given & set(map(id, op.outputs))]
        return [tf.shape(t) for t in _tensors(made)]

    was = tf.config.functions_run_eagerly()
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
    finally:
        tf.config.run_functions_eagerly(was)
    ops = Counter(op.type for op in made if op.type not in _NOT_MADE | _CONSTANT)
    hidden = frozenset(op.type for op in made if _hides(op))
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in shapes]
    if not sizes:
        return Spent(ops, hidden, 0, ("nothing", (0,)))
    tensors, top = _tensors(made), int(np.argmax(sizes))
    total = sum(n * t.dtype.size for n, t in zip(sizes, tensors))
    return Spent(ops, hidden, total, (tensors[top].op.type, shapes[top]))


def _tensors(ops: Iterable[tf.Operation]) -> list[tf.Tensor]:
    """What the ops made; variables and data sets have no shape of their own."""
    outputs = [t for op in ops if op.type not in _NOT_MADE for t in op.outputs]
    return [t for t in outputs if t.dtype.is_numpy_compatible and t.dtype.name not in ("variant", "resource")]


def _hides(op: tf.Operation) -> bool:
    """Whether it runs what is not in the graph: functions, which loops, branches and calls take as attributes; data sets and
    lists of tensors, which are variants; Python."""
    functions = any(value.HasField("func") or value.list.func for value in op.node_def.attr.values())
    return functions or op.type in PYTHON or any(t.dtype.name == "variant" for t in op.outputs)

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
"""The most ops of an answer. A careful answer takes up to 100; a loop that Python unrolls takes some per row, and the inputs
have many rows.
"""
_CONSTANT = frozenset({"Placeholder", "Const"})
_NOT_MADE = frozenset({"NoOp", "Identity", "ReadVariableOp"})


@dataclass(frozen=True)
class Spent:
    """The cost of one run.

    Attributes:
        ops: {op type: number of ops in the graph}, including those of a called tf.function, without constants, inputs and
            variables.
        hidden: types of ops that hide what they run: loops, branches, data sets, calls of graphs and of Python.
        bytes: bytes of all tensors that ops made, and of all constants; inputs and variables do not count.
        largest: (op type, shape) of the largest tensor.
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
    """The limits of an answer's cost. None means no limit. Loops, in the graph or unrolled, and anything else that hides its
    cost never pass. `ops` limits families: "Unique" counts every type that has it in its name, such as UniqueWithCountsV2.
    """

    rule: str
    largest_elements: int | None = None
    bytes: int | None = None
    ops: dict[str, int] = field(default_factory=dict)

    def enforce(self, answer: Callable, *inputs, next_step: str) -> Spent:
        """Trace and run `answer(*inputs)`.

        Raises:
            CheckFailed: the answer can't be traced, or it spends more than the budget.
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
    """Trace `answer(*inputs)`, run it once and count its ops and tensors; shapes are those of the run, not of the trace."""
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
    """The tensors that ops made. Variables and data sets have no shape, and are left out."""
    outputs = [t for op in ops if op.type not in _NOT_MADE for t in op.outputs]
    return [t for t in outputs if t.dtype.is_numpy_compatible and t.dtype.name not in ("variant", "resource")]


def _hides(op: tf.Operation) -> bool:
    """Whether an op runs code that is not in the graph: functions, which loops, branches and calls take as attributes; data
    sets and lists of tensors, which are variants; Python.
    """
    functions = any(value.HasField("func") or value.list.func for value in op.node_def.attr.values())
    return functions or op.type in PYTHON or any(t.dtype.name == "variant" for t in op.outputs)

"""Budgets that are enforced: an answer is traced to a graph and run once, and its ops and the tensors they make are counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ctrlab.lessons.check import CheckFailed, reason_of

if TYPE_CHECKING:
    import tensorflow as tf

PYTHON = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless"})
MOST_OPS = 250
"""The most ops of an answer, unless its budget says another number. A careful answer takes up to 100; a loop that Python unrolls
takes some per row, and the inputs have many rows.
"""
_CONSTANT = frozenset({"Placeholder", "Const"})
_SHAPES = frozenset({"Shape", "ShapeN", "Size", "Rank"})
_VIEWS = frozenset({"Bitcast", "EnsureShape", "ExpandDims", "Identity", "IdentityN", "PreventGradient", "Reshape", "Squeeze"})
_NOT_MADE = _VIEWS | {"NoOp", "ReadVariableOp", "StopGradient"}
"""Ops that compute nothing: their result is their input, perhaps of another shape."""
_FEW = 16
"""The most elements of a tensor that a computation on shapes, or on constants, makes."""
FREE = "constants, shapes, reshapes and other views are free"


@dataclass(frozen=True)
class Spent:
    """The cost of one run.

    Attributes:
        ops: {op type: number of ops in the graph}, including those of a called tf.function, without what is free: constants,
            inputs, variables, views such as a reshape, casts to the same type, and small numbers that are computed of shapes.
        dtypes: {op type: dtypes of its results}, of the same ops.
        hidden: types of ops that hide what they run: loops, branches, data sets, calls of graphs and of Python.
        bytes: bytes of all tensors that ops made, and of all constants; inputs, variables and what is free do not count.
        largest: (op type, shape) of the largest tensor.
    """

    ops: Counter
    dtypes: dict[str, set[str]]
    hidden: frozenset[str]
    bytes: int
    largest: tuple[str, tuple[int, ...]]

    @property
    def largest_elements(self) -> int:
        return int(np.prod(self.largest[1], dtype=np.int64))


@dataclass(frozen=True)
class Budget:
    """The limits of an answer's cost. None means no limit. Loops, in the graph or unrolled, and anything else that hides its
    cost never pass. `ops` limits families: "Unique" counts every type that has it in its name, such as UniqueWithCountsV2, and
    "MatMul|Einsum" counts both.
    """

    rule: str
    largest_elements: int | None = None
    bytes: int | None = None
    ops: dict[str, int] = field(default_factory=dict)
    most_ops: int = MOST_OPS

    def numbers(self) -> str:
        """The limits as a learner reads them: "at most 250 ops, no OneHot, no tensor above 64,000 elements"."""
        said = [f"at most {self.most_ops:,} ops", *(_allowed(family, most) for family, most in self.ops.items())]
        if self.largest_elements is not None:
            said.append(f"no tensor above {self.largest_elements:,} elements")
        if self.bytes is not None:
            said.append(f"at most {self.bytes:,} bytes in all tensors together")
        return ", ".join(said)

    def enforce(self, answer: Callable, *inputs, next_step: str) -> Spent:
        """Trace and run `answer(*inputs)`.

        Raises:
            CheckFailed: the answer can't be traced, or it spends more than the budget.
        """
        spent = spend(answer, *inputs)

        def fail(wrong, expected, received):
            raise CheckFailed(f"Budget: {self.rule}.", wrong=wrong, expected=expected, received=received, next_step=next_step)

        for op in sorted(spent.hidden):
            only = "tensor ops only; no loop, no data set, no Python call and no concrete function in the graph"
            fail(f"The graph has {op}, which hides what it costs.", only, op)
        if (count := spent.ops.total()) > self.most_ops:
            most = f"at most {self.most_ops:,} ops, however many rows; no loop that Python unrolls over them"
            fail(f"The graph has {count:,} ops, more than {self.most_ops:,}.", most, f"{count:,} ops")
        for family, most in self.ops.items():
            found = {op: n for op, n in spent.ops.items() if re.search(family, op)}
            if (count := sum(found.values())) > most:
                received = ", ".join(f"{n} {op}" for op, n in sorted(found.items()))
                above = f"more than {most}" if most else "and none is allowed"
                fail(f"The graph has {received}, {above}.", _allowed(family, most), received)
        if self.largest_elements is not None and spent.largest_elements > self.largest_elements:
            op, shape = spent.largest
            received = f"{op} made {list(shape)}, {spent.largest_elements:,}"
            wrong = f"A tensor has {spent.largest_elements:,} elements, more than {self.largest_elements:,}."
            fail(wrong, f"no tensor above {self.largest_elements:,} elements", received)
        if self.bytes is not None and spent.bytes > self.bytes:
            wrong = f"All tensors together have {spent.bytes:,} bytes, more than {self.bytes:,}."
            fail(wrong, f"at most {self.bytes:,} bytes of tensors", f"{spent.bytes:,} bytes")
        return spent


def _allowed(family: str, most: int) -> str:
    named = family.replace("|", " or ")
    return f"at most {most} {named}" if most else f"no {named}"


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
            wrong="The function can't be traced to a graph.",
            expected="a graph",
            received=reason_of(error),
            cure="use tf.* on the tensors; no .numpy(), no Python loop over values",
        ) from error
    finally:
        tf.config.run_functions_eagerly(was)
    free = _free(made)
    counted = [(_type(op), op) for op in made if op not in free]
    ops = Counter(kind for kind, _ in counted)
    dtypes: dict[str, set[str]] = {}
    for kind, op in counted:
        dtypes.setdefault(kind, set()).update(t.dtype.name for t in op.outputs)
    hidden = frozenset(kind for kind, op in counted if _hides(op))
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in shapes]
    if not sizes:
        return Spent(ops, dtypes, hidden, 0, ("nothing", (0,)))
    tensors, top = _tensors(made), int(np.argmax(sizes))
    total = sum(n * t.dtype.size for n, t in zip(sizes, tensors))
    return Spent(ops, dtypes, hidden, total, (tensors[top].op.type, shapes[top]))


def _free(made: Sequence[tf.Operation]) -> set[tf.Operation]:
    """The ops that cost nothing. `made` is in the order of the trace, so an op's inputs come before it."""
    free, of_shapes = set(), set()
    for op in made:
        sources = {t.op for t in op.inputs}
        known = sources and not _hides(op) and all(source in of_shapes or source.type == "Const" for source in sources)
        if op.type in _SHAPES or (known and all((t.shape.num_elements() or _FEW + 1) <= _FEW for t in op.outputs)):
            of_shapes.add(op)
        if op in of_shapes or op.type in _NOT_MADE | _CONSTANT or _casts_to_the_same(op) or _asserts(op):
            free.add(op)
    return free


def _casts_to_the_same(op: tf.Operation) -> bool:
    return op.type == "Cast" and op.inputs[0].dtype == op.outputs[0].dtype


def _asserts(op: tf.Operation) -> bool:
    """Whether an op is a test that raises, such as those of a new ragged tensor: a branch that does nothing else."""
    if op.type not in ("If", "StatelessIf"):
        return op.type == "Assert"
    functions = {f.signature.name: f for f in op.graph.as_graph_def().library.function}
    nodes = {node.op for branch in ("then_branch", "else_branch") for node in functions[op.get_attr(branch).name].node_def}
    return nodes <= {"Assert", "Const", "Identity", "NoOp"}


def _type(op: tf.Operation) -> str:
    """The op's type; an einsum that sums over nothing is a Mul."""
    if op.type != "Einsum":
        return op.type
    given, _, left = op.get_attr("equation").decode().partition("->")
    return "Einsum" if set(given) - {*left, ","} else "Mul"


def _tensors(ops: Iterable[tf.Operation]) -> list[tf.Tensor]:
    """The tensors that ops made. Variables and data sets have no shape, and are left out."""
    outputs = [t for op in ops if op.type not in _NOT_MADE and not _casts_to_the_same(op) for t in op.outputs]
    return [t for t in outputs if t.dtype.is_numpy_compatible and t.dtype.name not in ("variant", "resource")]


def _hides(op: tf.Operation) -> bool:
    """Whether an op runs code that is not in the graph: functions, which loops, branches and calls take as attributes; data
    sets and lists of tensors, which are variants; Python.
    """
    functions = any(value.HasField("func") or value.list.func for value in op.node_def.attr.values())
    return functions or op.type in PYTHON or any(t.dtype.name == "variant" for t in op.outputs)

"""Every op: its ways on its cases against its reference, values and gradients; which way a set of optimizations gets."""

import dataclasses
import pkgutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from as_tensors import copied, leaves, numbers, replaced, tensors

from ctrlab import _native
from ctrlab.errors import CtrlabError, NativeLibraryError
from ctrlab.ops import ops, references
from ctrlab.ops.benches import benches
from ctrlab.optimizations import RUNGS
from ctrlab.profiling.work import Work

OPS = ops()
CASES = [(name, case) for name, op in OPS.items() for case in op.cases(np.random.default_rng(0))]
WAYS = [(name, case, way) for name, case in CASES for way in OPS[name].ways]
DIFFERENTIABLE = [(name, case) for name, case in CASES if OPS[name].differentiable != 0]
OF_ALL_TERMS = ("random", "weights", "rows", "and sums of them", "unknown ids", "no bottom")
"""The last parts of names of cases that together have every term of a gradient by hand. They are small and have no kinks."""
SAME = 1e-5
"""Norm-wise, of the larger of a tensor and the largest of those beside it: some gradients are sums that cancel to nothing."""


def arguments(name, case, seed=0):
    return OPS[name].cases(np.random.default_rng(seed))[case]


def asked(name, outputs):
    """The outputs that have a gradient."""
    count = OPS[name].differentiable
    return outputs if count is None else outputs[:count] if count > 1 else outputs[0]


def upstream(outputs, rng):
    """A gradient of each output, as they are nested; of events that of their numbers, end to end."""
    if isinstance(outputs, list | tuple):
        return type(outputs)(upstream(part, rng) for part in outputs)
    return rng.standard_normal(leaves(outputs)[0].shape).astype(np.float32).astype(np.float64)


def hold(received, expected, what):
    assert len(received) == len(expected), what
    received, expected = ([np.asarray(leaf) for leaf in side] for side in (received, expected))
    largest = max((np.linalg.norm(e) for e in expected if e.dtype.kind == "f"), default=0.0)
    for r, e in zip(received, expected):
        assert r.shape == e.shape, what
        if r.dtype.kind != "f":
            np.testing.assert_array_equal(r, e, err_msg=what)
        elif not np.array_equal(r, e):  # an infinity has no distance
            assert np.linalg.norm(r - e) <= SAME * max(np.linalg.norm(e), largest), f"{what}: {r} for {e}"


def lists(value):
    """Ids as plain lists, as the reference in Python gives them."""
    return value.to_list() if isinstance(value, tf.RaggedTensor) else np.asarray(value).tolist()


def call(name, way, given):
    """The result of a way for its arguments; None if one of the other ways refuses the case."""
    op = OPS[name]
    if way not in op.others:
        return op.ways[way](*given)
    try:
        return op.ways[way](*given)
    except (CtrlabError, tf.errors.InvalidArgumentError):
        return None


@pytest.mark.parametrize(("name", "case", "way"), WAYS)
def test_every_way_is_the_reference(name, case, way):
    given, own = tensors(arguments(name, case)), copied(arguments(name, case))
    expected = OPS[name].reference(*own)
    received = call(name, way, given)
    if name == "parse_ids":
        assert [lists(column) for column in received] == expected
    elif expected is None:  # it changes its arguments
        hold(leaves(given), leaves(own), case)
    elif received is not None or way not in OPS[name].others:
        hold(leaves(received), leaves(expected), case)


@pytest.mark.parametrize("name", OPS)
def test_none_of_the_others_refuses_every_case(name):
    op = OPS[name]
    for way in op.others:
        assert any(call(name, way, tensors(case)) is not None for case in op.cases(np.random.default_rng(1)).values()), way


def differences(name, given, d_out, step=1e-6):
    """The gradients of the reference's floats, by central differences."""
    found, start = [], numbers(given)

    def total(values):
        outputs = asked(name, OPS[name].reference(*replaced(given, iter(values))))
        return sum((np.asarray(o) * d).sum() for o, d in zip(leaves(outputs), leaves(d_out)))

    for i, array in enumerate(start):
        gradient = np.zeros(array.shape)
        for place in np.ndindex(array.shape):
            sides = []
            for sign in (1, -1):
                moved = array.copy()
                moved[place] += sign * step
                sides.append(total([*start[:i], moved, *start[i + 1 :]]))
            gradient[place] = (sides[0] - sides[1]) / (2 * step)
        found.append(gradient)
    return found


def dense(gradient, like):
    """A dense array made from slices, or zeros for None."""
    if gradient is None:
        return np.zeros(like.shape)
    whole = np.zeros(like.shape)
    if hasattr(gradient, "indices"):
        np.add.at(whole, np.asarray(gradient.indices), np.asarray(gradient.values))
        return whole
    return np.asarray(gradient)


def by_hand(name, given, d_out):
    """The op's own gradient of the reference, an array a float argument."""
    found = OPS[name].reference_gradient(*given, d_out=d_out)
    parts, flat = [found], []
    while parts:
        part = parts.pop(0)
        if isinstance(part, list | tuple) and not hasattr(part, "indices"):
            parts = [*part, *parts]
        elif part is not None:
            flat.append(part)
    start = numbers(given)
    return [dense(part, like) for part, like in zip([*flat, *[None] * (len(start) - len(flat))], start)]


@pytest.mark.parametrize("name", [name for name, op in OPS.items() if op.reference_gradient])
def test_a_gradient_by_hand_is_the_references(name):
    for case in [case for case in OPS[name].cases(np.random.default_rng(0)) if case.split(", ")[-1] in OF_ALL_TERMS]:
        given = arguments(name, case)
        d_out = upstream(asked(name, OPS[name].reference(*given)), np.random.default_rng(1))
        for received, expected in zip(by_hand(name, given, d_out), differences(name, given, d_out), strict=True):
            np.testing.assert_allclose(received, expected, atol=1e-6, err_msg=case)


@pytest.mark.parametrize(("name", "case"), DIFFERENTIABLE)
def test_the_gradients_of_every_way_are_the_references(name, case):
    given = arguments(name, case)
    d_out = upstream(asked(name, OPS[name].reference(*given)), np.random.default_rng(1))
    expected = (by_hand if OPS[name].reference_gradient else differences)(name, given, d_out)
    for way in OPS[name].ways:
        own = tensors(given)
        sources = numbers(own)
        with tf.GradientTape() as tape:
            tape.watch([source for source in sources if not isinstance(source, tf.Variable)])
            outputs = call(name, way, own)
            if outputs is None:
                continue
            targets = leaves(asked(name, outputs))
        upstreams = [tf.constant(d, tf.float32) for d in leaves(d_out)]
        received = tape.gradient(targets, sources, output_gradients=upstreams)
        hold([dense(r, like) for r, like in zip(received, sources)], expected, f"{case}, {way}")


@pytest.mark.parametrize("name", OPS)
def test_an_op_has_benches_and_cases_with_nothing_in_them(name):
    op = OPS[name]
    assert op.benches.items() <= benches().items() and op.benches
    cases = op.cases(np.random.default_rng(0))
    assert any("random" in case for case in cases) and (
        any("no" in case.split() for case in cases) or name in ("batch_norm", "snapshot")
    )


def test_a_floor_grows_with_what_is_done():
    for name, sizes in {"gru": (10, 36, 36), "lookup": (10, 10, 16), "experts": (10, 4, (8, 16)), "snapshot": (10,)}.items():
        one, two = OPS[name].work(*sizes), OPS[name].work(20, *sizes[1:])
        assert isinstance(one, Work) and two.flops + two.bytes > one.flops + one.bytes


def same(way, function):
    return getattr(way, "__wrapped__", way) is function


@pytest.mark.parametrize("name", OPS)
def test_one_choice(name):
    op = OPS[name]
    others = set(RUNGS) - {op.rung, "stock"}
    assert same(op.pick(()), op.baseline) and same(op.pick(others), op.baseline)
    assert same(op.pick({"stock"}), op.best_stock or op.baseline)
    assert same(op.pick({op.rung}), op.fused) and op.on({op.rung}) and not op.on(others)
    assert next(iter(op.ways)) == "baseline" and list(op.ways)[-1] == "fused"
    assert len(set(map(id, op.ways.values()))) == len(op.ways), "two names of one way"


@pytest.mark.parametrize("name", OPS)
def test_without_the_library_it_is_refused_where_it_is_chosen(name, monkeypatch):
    def missing():
        raise NativeLibraryError("The compiled library is missing.")

    monkeypatch.setattr(_native, "library", missing)
    OPS[name].pick({"stock"})
    with pytest.raises(NativeLibraryError, match="is missing"):
        OPS[name].pick({OPS[name].rung})


def test_a_rung_that_is_not_of_the_ladder_is_refused():
    with pytest.raises(ValueError, match="names 'atention'"):
        dataclasses.replace(OPS["attention"], rung="atention")


def test_references_need_no_tensorflow():
    names = [f"ctrlab.ops.references.{m.name}" for m in pkgutil.iter_modules(references.__path__)]
    program = f"import sys, {', '.join(names)}; sys.exit('tensorflow' in sys.modules)"
    assert names and subprocess.run([sys.executable, "-c", program]).returncode == 0

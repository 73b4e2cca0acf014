"""A NaN stays a NaN, whatever its bits: one in any input of an op comes out where the definition has one."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from on_tensors import flat_attention, flat_auxiliary, flat_gru

from ctrlab.ops import (
    attention,
    auxiliary,
    batch_norm,
    dot_interaction,
    experts,
    factorization_machine,
    gru,
    indicator,
    mixture,
    pointwise,
)
from ctrlab.ops.references.arrays import Events
from ctrlab.ops.references.pointwise import KINDS, SLOPED

SPLITS = np.array([0, 3, 3, 4, 9, 11])
IDS = [np.array([0, 2, -1, 1, 3]), np.array([1, 1, 0, 0, 1])]
MLP = {"w0": (28, 18), "b0": (18,), "w1": (18, 5), "b1": (5,), "w2": (5, 1), "b2": (1,)}
AUXILIARY = {**MLP, "w0": (13, 18)}
GRU = {"x": (11, 7), "gates": (24, 34), "gates_bias": (34,), "candidate": (24, 17), "candidate_bias": (17,)}


class Op(NamedTuple):
    """`fused` and `truth` take arrays by name; the truth gives outputs and gradients of the sum of d_out * output, by name."""

    shapes: dict[str, tuple]
    fused: Callable
    truth: Callable


def layers(a):
    return [(a[f"w{i}"], a[f"b{i}"]) for i in range(3)]


def stock(of):
    """The truth by the library's ops where there is no gradient in NumPy."""

    def truth(arrays, d_outs):
        arrays = {name: tf.constant(a, tf.float32) for name, a in arrays.items()}
        with tf.GradientTape() as tape:
            tape.watch(arrays)
            outputs = of(arrays)
        gradients = tape.gradient(outputs, arrays, output_gradients=[tf.constant(d, tf.float32) for d in d_outs])
        return outputs, {name: tf.convert_to_tensor(gradient) for name, gradient in gradients.items()}

    return truth


def gru_truth(a, d_outs):
    scales = [Events(SPLITS, a["scales"])] if "scales" in a else []
    of = (Events(SPLITS, a["x"]), a["gates"], a["gates_bias"], a["candidate"], a["candidate_bias"], *scales)
    outputs, last = gru.OP.reference(*of)
    return [outputs.flat, last], dict(zip(a, gru.OP.reference_gradient(*of, d_out=d_outs)))


def gru_fused(a):
    return flat_gru(gru.fused)(a["x"], SPLITS, a["gates"], a["gates_bias"], a["candidate"], a["candidate_bias"], a.get("scales"))


def auxiliary_of(way, a):
    return flat_auxiliary(way)(a["h"], a["clicked"], a["skipped"], SPLITS, a["scale"], a["shift"], layers(a))


def of_pointwise(kind):
    sloped = {"slope": (19,)} if kind in SLOPED else {}

    def truth(a, d_outs):
        gradients = pointwise.OP.reference_gradient(kind, a["x"], a["shift"], a.get("slope"), d_out=d_outs[0])
        return [pointwise.OP.reference(kind, a["x"], a["shift"], a.get("slope"))], dict(zip(a, gradients))

    shapes = {"x": (6, 19), "shift": (19,), **sloped}
    return Op(shapes, lambda a: [pointwise.fused(kind, a["x"], a["shift"], a.get("slope"))], truth)


def batch_norm_truth(a, d_outs):
    moving = np.zeros(19), np.ones(19)
    out = batch_norm.OP.reference(*a.values(), *moving)[0]
    return [out], dict(zip(a, batch_norm.OP.reference_gradient(*a.values(), *moving, d_out=d_outs[0])))


def experts_truth(a, d_outs):
    of = a["x"], [a["k0"], a["k1"]], [a["b0"], a["b1"]]
    d_x, d_kernels, d_biases = experts.OP.reference_gradient(*of, *d_outs)
    return [experts.OP.reference(*of)], dict(zip(a, [d_x, *d_kernels, *d_biases]))


def mixture_truth(a, d_outs):
    of = a["x"], a["experts"], [a["k0"], a["k1"]], [a["b0"], a["b1"]]
    d_x, d_experts, d_kernels, d_biases = mixture.OP.reference_gradient(*of, d_outs)
    return mixture.OP.reference(*of), dict(zip(a, [d_x, d_experts, *d_kernels, *d_biases]))


OPS = {
    "attention": Op(
        {"query": (5, 7), "keys": (11, 7), **MLP},
        lambda a: flat_attention(attention.fused)(a["query"], a["keys"], SPLITS, layers(a)),
        stock(lambda a: flat_attention(attention.best_stock)(a["query"], a["keys"], SPLITS, layers(a))),
    ),
    "gru": Op(GRU, gru_fused, gru_truth),
    "augru": Op({**GRU, "scales": (11,)}, gru_fused, gru_truth),
    "auxiliary": Op(
        {"h": (11, 6), "clicked": (11, 7), "skipped": (11, 7), "scale": (13,), "shift": (13,), **AUXILIARY},
        lambda a: [auxiliary_of(auxiliary.fused, a)],
        stock(lambda a: [auxiliary_of(auxiliary.baseline, a)]),
    ),
    "batch_norm": Op(
        {"product": (6, 19), "bias": (19,), "scale": (19,), "shift": (19,)},
        lambda a: [batch_norm.fused(*a.values(), tf.zeros(19), tf.ones(19))[0]],
        batch_norm_truth,
    ),
    "experts": Op(
        {"x": (6, 9), "k0": (2, 9, 32), "k1": (2, 32, 16), "b0": (2, 1, 32), "b1": (2, 1, 16)},
        lambda a: [experts.fused(a["x"], [a["k0"], a["k1"]], [a["b0"], a["b1"]])],
        experts_truth,
    ),
    "mixture": Op(
        {"x": (6, 9), "experts": (3, 6, 16), "k0": (9, 3), "k1": (9, 3), "b0": (3,), "b1": (3,)},
        lambda a: mixture.fused(a["x"], a["experts"], [a["k0"], a["k1"]], [a["b0"], a["b1"]]),
        mixture_truth,
    ),
    **{kind: of_pointwise(kind) for kind in KINDS},
    "dot_interaction": Op(
        {"bottom": (5, 6), "fields": (5, 18)},
        lambda a: [dot_interaction.fused(a["bottom"], a["fields"], 6)],
        lambda a, d: (
            [dot_interaction.OP.reference(*a.values(), 6)],
            dict(zip(a, dot_interaction.OP.reference_gradient(*a.values(), 6, *d))),
        ),
    ),
    "factorization_machine": Op(
        {"fields": (5, 18)},
        lambda a: [factorization_machine.fused(a["fields"], 6)],
        lambda a, d: (
            [factorization_machine.OP.reference(a["fields"], 6)],
            {"fields": factorization_machine.OP.reference_gradient(a["fields"], 6, *d)},
        ),
    ),
    "indicator": Op(
        {"kernel": (6, 18)},
        lambda a: [indicator.fused([tf.constant(i) for i in IDS], [4, 2], a["kernel"])],
        lambda a, d: (
            [indicator.OP.reference(IDS, [4, 2], a["kernel"])],
            {"kernel": indicator.OP.reference_gradient(IDS, [4, 2], a["kernel"], d_out=d[0])[0]},
        ),
    ),
}


def run(op, arrays, d_outs):
    tensors = {name: tf.constant(a) for name, a in arrays.items()}
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        outputs = list(op.fused(tensors))
    return outputs, tape.gradient(outputs, tensors, output_gradients=[tf.constant(d) for d in d_outs])


@st.composite
def nans(draw):
    """Any of the 2^24 - 2 floats that are no number: either sign, quiet or signalling."""
    bits = draw(st.integers(1, 2**23 - 1) | st.sampled_from([1, 2**22, 2**22 + 1, 2**23 - 1])) | 0xFF << 23
    return np.array([bits | draw(st.integers(0, 1)) << 31], np.uint32)


@pytest.mark.parametrize("name", OPS)
@given(nan=nans(), data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_nan_of_any_bits_stays_one(name, nan, data):
    op = OPS[name]
    rng = np.random.default_rng(data.draw(st.integers(0, 9), label="seed"))
    arrays = {of: rng.normal(size=shape).astype(np.float32) for of, shape in op.shapes.items()}
    outputs = op.fused({of: tf.constant(a) for of, a in arrays.items()})
    d_outs = [rng.normal(size=np.shape(out)).astype(np.float32) for out in outputs]
    planted = {**arrays, **{f"d_out {i}": d for i, d in enumerate(d_outs) if d.ndim}}
    where = planted[data.draw(st.sampled_from(sorted(planted)), label="where")]
    where.view(np.uint32).flat[data.draw(st.integers(0, where.size - 1), label="at")] = nan[0]

    with np.errstate(invalid="ignore"):
        expected, gradients = op.truth({of: a.astype(np.float64) for of, a in arrays.items()}, d_outs)
    outputs, found = run(op, arrays, d_outs)
    for i, (out, want) in enumerate(zip(outputs, expected)):
        assert np.isnan(np.asarray(out)[np.isnan(want)]).all(), f"output {i}"
    for of in arrays:
        assert np.isnan(np.asarray(found[of])[np.isnan(gradients[of])]).all(), f"the gradient of {of}"

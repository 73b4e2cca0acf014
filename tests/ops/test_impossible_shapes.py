"""Tensors without numbers may have sizes that nothing could be allocated for; ops refuse them like any other wrong shape."""

import pytest
import tensorflow as tf

from ctrlab import _native

HUGE = 2**62
VARIABLE = tf.Variable(tf.zeros([0, HUGE]))


def none(*shape):
    return tf.zeros(shape)


def gru():
    weights = {"gates_bias": none(8), "candidate_kernel": none(8, 4), "candidate_bias": none(4)}
    return _native.library().ops.ctrlab_gru(x=none(0, HUGE), splits=[0], gates_kernel=none(8, 8), **weights, attention=[])


def attention():
    wide = none(0, HUGE)  # four times that is 0 in int64
    return _native.library().ops.ctrlab_attention(query=wide, keys=wide, splits=[0], kernels=[none(0, 1)], biases=[none(1)])


def dot_interaction():
    return _native.library().ops.ctrlab_dot_interaction(bottom=[], fields=none(0, 2**32), dim=1)


def dot_interaction_of_a_dimension():
    return _native.library().ops.ctrlab_dot_interaction(bottom=[none(0, 4)], fields=none(0, 4), dim=2**63 - 1)


def mixture():
    return _native.library().ops.ctrlab_mixture(experts=none(4, 1, 16), logits=none(1, 4), tasks=HUGE + 1)


def experts():
    return _native.library().ops.ctrlab_experts(x=none(0, HUGE), kernels=[none(2, 16, 16)], biases=[none(2, 1, 16)])


def experts_of_nothing():
    return _native.library().ops.ctrlab_experts(x=none(HUGE, 0), kernels=[none(2, 0, 16)], biases=[none(2, 1, 16)])


def auxiliary():
    return _native.library().ops.ctrlab_auxiliary(
        interests=none(HUGE, 0),
        clicked=none(HUGE, 0),
        skipped=none(HUGE, 0),
        splits=tf.constant([0, HUGE], tf.int64),
        kernels=[none(0, 1)],
        biases=[none(1)],
    )


def sparse_step():
    _native.library().ops.ctrlab_optimizer_step(
        variables=[VARIABLE.handle],
        slots=[],
        ids=[tf.range(4, dtype=tf.int64)],
        gradients=[none(0, HUGE)],
        learning_rate=0.1,
        step=1.0,
        numbers=tf.zeros(6, tf.float64),
        kind="sgd",
    )


def parsing_with_a_list_too_few():
    return _native.library().ops.ctrlab_parse_ids(
        values=[tf.constant(["a;b"])],
        splits=[],
        C=1,
        L=0,
        names=["tags"],
        layouts=["joined"],
        separators=[";"],
        max_lengths=[0],
        encodings=["hash"],
        buckets=[10],
        words=[],
    )


CASES = [
    gru,
    attention,
    dot_interaction,
    dot_interaction_of_a_dimension,
    mixture,
    experts,
    experts_of_nothing,
    auxiliary,
    sparse_step,
    parsing_with_a_list_too_few,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_it_is_refused(case, traced):
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=r"[Mm]ust|received"):
        if traced:
            tf.function(case)()
        else:
            case()

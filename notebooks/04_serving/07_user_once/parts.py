"""The cost of the user in two parts of a model: MMoE's first layer and DIN's attention, at the contest's sizes. For a lesson. All
sizes are those of a request with one user.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from ctrlab.lessons.topics.user_once.checks import near, reference_attend
from ctrlab.lessons.topics.user_once.study import Attend, of_one_user

from ctrlab import data
from ctrlab.model_names import DATA_SETS
from ctrlab.models.mmoe import MMoE
from ctrlab.ops import shared_attention
from ctrlab.ops.events import Events
from ctrlab.profiling.work import Work

WIDTH, UNITS = 36, (80, 40, 1)  # of DIN's attention


def columns_of_mmoe() -> tuple[int, int]:
    """The number of inputs of MMoE's first layer that describe the user and the context, and that describe the candidate."""
    schema, dim = data.schema(DATA_SETS["mmoe"]), MMoE.presets["contest"].dim
    roles = [schema.role(column.name) for column in schema.id_columns]
    numbers = len(schema.numerics) + len(schema.numeric_lists)
    of_candidate = roles.count("candidate")
    return dim * (len(roles) - of_candidate), dim * of_candidate + numbers


def first_layer_of_mmoe(candidates: int) -> Callable[[int], tuple]:
    """Makes arguments of `first_layer` for a request of one user, at the sizes of MMoE's experts."""
    of_user, of_candidate = columns_of_mmoe()
    units = MMoE.expert_count * MMoE.presets["contest"].units["experts"][0]
    kernel = tf.random.stateless_normal([of_user + of_candidate, units], seed=[0, 0])
    row_of = tf.zeros([candidates], tf.int64)

    def inputs(call: int) -> tuple:
        made = [tf.random.stateless_normal(shape, seed=[call, 1]) for shape in ([1, of_user], [candidates, of_candidate])]
        return *made, row_of, kernel

    return inputs


def products(candidates: int, events: int) -> dict[str, float]:
    """Multiply-adds of DIN's attention: with whole rows, with the user once, and of the pairs alone, which can't be shared."""
    hidden, above = UNITS[0], sum(i * o for i, o in itertools.pairwise(UNITS))
    pairs = candidates * events
    alone = pairs * (WIDTH * hidden + above)
    return {
        "whole rows": pairs * (4 * WIDTH * hidden + above),
        "user once": alone + (candidates + events) * WIDTH * hidden,
        "pairs alone": alone,
    }


def attention(
    candidates: int, events: int, attend: Attend | None = None
) -> tuple[dict[str, Callable], Callable[[int], tuple], Work]:
    """DIN's attention on a request of one user: its ways, what makes their inputs, and the least work.

    Args:
        attend: the learner's function, if it exists yet.
    """
    layers = _layers(0)
    splits, counts = tf.constant([0, events], tf.int64), tf.constant([candidates], tf.int64)

    def way(op: Callable) -> Callable:
        return tf.function(lambda query, keys: op(query, Events(splits, flat=keys), counts, layers), autograph=False)

    ways = {"whole rows": way(shared_attention.best_stock)}
    if attend:
        ways["yours"] = way(of_one_user(attend))
    ways |= {"ours, whole rows": way(shared_attention.repeated), "ours": way(shared_attention.fused)}

    def inputs(call: int) -> tuple:
        return tuple(tf.random.stateless_normal([rows, WIDTH], seed=[call, rows]) for rows in (candidates, events))

    return ways, inputs, shared_attention.OP.work(candidates, events, candidates * events, WIDTH, UNITS[:-1])


def _layers(seed: int) -> list[tuple[tf.Tensor, tf.Tensor]]:
    sizes = list(itertools.pairwise((4 * WIDTH, *UNITS)))
    return [(tf.random.stateless_normal([i, o], [seed, i]) / i**0.5, tf.zeros(o)) for i, o in sizes]


def errors(attend: Attend, distance: float) -> dict[str, float]:
    """The largest errors of a weight, where candidates resemble events and both are so far from 0.

    Args:
        attend: the learner's function; the joined layer and the package's kernel are measured beside it.
    """
    question = near(np.random.default_rng(0), distance)
    (exact, _), _ = reference_attend(*question)
    query, keys, layers = tf.nest.map_structure(tf.constant, question)
    events = Events(tf.constant([0, len(keys)], tf.int64), flat=keys)
    ours, _ = shared_attention.fused(query, events, tf.constant([len(query)], tf.int64), layers)
    found = {
        "joined": _joined(query, keys, layers),
        "yours": attend(query, keys, layers)[0],
        "ours": tf.reshape(ours, exact.shape),
    }
    return {name: float(abs(weights.numpy() - exact).max()) + 1e-9 for name, weights in found.items()}  # a logarithm needs > 0


def _joined(query: tf.Tensor, keys: tf.Tensor, layers) -> tf.Tensor:
    """The weights, [q, k, q - k, q * k] joined, in float32."""
    shape = tf.shape(query[:, None] + keys)
    q, k = tf.broadcast_to(query[:, None], shape), tf.broadcast_to(keys, shape)
    x = tf.concat([q, k, q - k, q * k], axis=2)
    for kernel, bias in layers[:-1]:
        x = tf.sigmoid(tf.tensordot(x, kernel, 1) + bias)
    return tf.nn.softmax((tf.tensordot(x, layers[-1][0], 1) + layers[-1][1])[..., 0])

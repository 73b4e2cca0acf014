"""Attention of many candidates over one history: `ctrlab.ops.attention` for serving, where rows share their keys.

A request ranks many candidates for one user. Their queries differ, the user's history does not. With W = [Wq; Wk; Wd; Wp] as in
`ctrlab.ops.attention`, the first layer is

    [q, k, q - k, q * k] W = q (Wq + Wd) + k (Wk - Wd) + (q * k) Wp

where the first product is computed once per candidate, the second once per event, and only the third per pair of both.

Every way takes

    query: float32 [N, C], the candidates of the first user, then those of the second, and so on.
    keys: `Events`, C wide, one history per user.
    candidates: int64 [U], how many candidates each user has; they sum to N.
    layers: the MLP's (kernel [in, out], bias [out]) pairs, 4C wide at the bottom and 1 at the top; sigmoid between.

and returns the weights, float32, one number per candidate and event of its user, in this order; and attended, float32 [N, C],
zeros for the candidates of a user without events. The other ways repeat the histories. There is no gradient: a batch for training
has no rows to share.

q Wd - k Wd cancels if q and k are far from 0 and close to each other. If the layer has a unit where |Wd| > |Wq| + |Wk|, a pair
with |k - q| < |k| / 2 takes all 4C numbers. So the error of a unit's sum is at most 6 times the possible error of a float32
product of the 4C numbers, as in `ctrlab.ops.attention`, and here it is the pair's own.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from ctrlab import _native
from ctrlab.errors import CtrlabError
from ctrlab.ops import attention
from ctrlab.ops.events import Events
from ctrlab.ops.op import Op
from ctrlab.ops.references import shared_attention as definition

Layers = Sequence[tuple[tf.Tensor, tf.Tensor]]


def baseline(query: tf.Tensor, keys: Events, candidates: tf.Tensor, layers: Layers) -> tuple[tf.Tensor, tf.Tensor]:
    """Attention's baseline on a copy of the history per candidate."""
    weights, attended = attention.baseline(query, keys.repeated(candidates), layers)
    return weights.flat, attended


def best_stock(query: tf.Tensor, keys: Events, candidates: tf.Tensor, layers: Layers) -> tuple[tf.Tensor, tf.Tensor]:
    """Attention's best stock way on a copy of the history per candidate."""
    weights, attended = attention.best_stock(query, keys.repeated(candidates), layers)
    return weights.flat, attended


def repeated(query: tf.Tensor, keys: Events, candidates: tf.Tensor, layers: Layers) -> tuple[tf.Tensor, tf.Tensor]:
    """Attention's compiled op on a copy of the history per candidate."""
    weights, attended = attention.fused(query, keys.repeated(candidates), layers)
    return weights.flat, attended


def fused(query: tf.Tensor, keys: Events, candidates: tf.Tensor, layers: Layers) -> tuple[tf.Tensor, tf.Tensor]:
    """The compiled op. It takes any number of sigmoid layers of any width.

    Raises:
        CtrlabError: there is no layer, or a gradient is asked for. InvalidArgumentError: shapes, splits or candidates do not
        agree. NativeLibraryError: there is no compiled library for this TensorFlow.
    """
    if not layers:
        raise CtrlabError("Attention needs at least the layer that gives the score; received no layers.")
    kernels, biases = zip(*layers)
    return _native.library().ops.ctrlab_shared_attention(
        query=query, keys=keys.flat, splits=keys.splits, candidates=candidates, kernels=kernels, biases=biases
    )


@tf.RegisterGradient("Ctrlab>SharedAttention")
def _no_gradient(op: tf.Operation, *_) -> None:
    raise CtrlabError("Attention over shared histories serves and has no gradient; received a tape: train with attention's ways.")


OP = Op(
    "shared_attention",
    rung="attention",
    part="attention",
    definition=definition,
    baseline=baseline,
    best_stock=best_stock,
    fused=fused,
    others={"fused, repeated": repeated},
    differentiable=0,
)

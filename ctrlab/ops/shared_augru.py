"""An AUGRU of many candidates over one history: `ctrlab.ops.gru` for serving, where rows share their events.

The formula is that of `ctrlab.ops.gru`. Attention differs between the candidates of a user, so their states do, too; x W does
not, and is computed once per event.

Every way takes

    x: `Events`, C wide, one history per user.
    candidates: int64 [U], how many candidates each user has; N is their sum.
    gates_kernel, gates_bias: float32 [C + H, 2H], [2H]; columns are the reset gate's, then the update gate's.
    candidate_kernel, candidate_bias: float32 [C + H, H], [H].
    attention: float32, one number per candidate and event of its user, in this order, as `ctrlab.ops.shared_attention` gives it.

and returns the last states, float32 [N, H], zeros for the candidates of a user without events. The baseline repeats the
histories. There is no gradient: a batch for training has no rows to share.
"""

from __future__ import annotations

import tensorflow as tf

from ctrlab import _native
from ctrlab.errors import CtrlabError
from ctrlab.ops import gru
from ctrlab.ops.events import Events
from ctrlab.ops.op import Op
from ctrlab.ops.references import shared_augru as definition


def baseline(x: Events, candidates, gates_kernel, gates_bias, candidate_kernel, candidate_bias, attention) -> tf.Tensor:
    """The GRU's baseline on a copy of the history per candidate."""
    histories = x.repeated(candidates)
    scales = Events(histories.splits, flat=attention)
    return gru.baseline(histories, gates_kernel, gates_bias, candidate_kernel, candidate_bias, scales)[1]


def repeated(x: Events, candidates, gates_kernel, gates_bias, candidate_kernel, candidate_bias, attention) -> tf.Tensor:
    """The GRU's fused op on a copy of the history per candidate."""
    histories = x.repeated(candidates)
    scales = Events(histories.splits, flat=attention)
    return gru.fused(histories, gates_kernel, gates_bias, candidate_kernel, candidate_bias, scales)[1]


def fused(x: Events, candidates, gates_kernel, gates_bias, candidate_kernel, candidate_bias, attention) -> tf.Tensor:
    """The compiled op.

    Raises:
        CtrlabError: a gradient is asked for. InvalidArgumentError: shapes, splits or candidates do not agree. NativeLibraryError:
        there is no compiled library for this TensorFlow.
    """
    return _native.library().ops.ctrlab_shared_augru(
        x=x.flat,
        splits=x.splits,
        candidates=candidates,
        gates_kernel=gates_kernel,
        gates_bias=gates_bias,
        candidate_kernel=candidate_kernel,
        candidate_bias=candidate_bias,
        attention=attention,
    )


@tf.RegisterGradient("Ctrlab>SharedAugru")
def _no_gradient(op: tf.Operation, *_) -> None:
    raise CtrlabError("An AUGRU over shared histories serves and has no gradient; received a tape: train with the GRU's ways.")


OP = Op(
    "shared_augru",
    rung="augru",
    part="gru",
    definition=definition,
    baseline=baseline,
    fused=fused,
    others={"fused, repeated": repeated},
    differentiable=0,
)

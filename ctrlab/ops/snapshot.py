"""The snapshot: a model's variables copied into others that are there already, between two steps.

    targets[i] := sources[i]    for every i, of the same dtype and shape

This copy is all that training waits for when a checkpoint is written by another thread. `baseline` is what a TensorFlow user
writes: an assignment a variable. Reading a variable that sparse updates have touched makes a new tensor, so that memory is
taken from the system, page after page, and given back. The fused op copies everything at once, into the targets' own memory,
with all threads and past the caches.

Source: the asynchronous saver of NicePerf (DeepRec CTR contest) and of TensorFlow 2's AsyncCheckpoint copy the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from ctrlab import _native
from ctrlab.errors import CtrlabError
from ctrlab.ops.op import Op
from ctrlab.ops.references import snapshot as definition


def baseline(sources: Sequence[tf.Variable], targets: Sequence[tf.Variable]) -> None:
    """One assignment a variable."""
    _agree(sources, targets)
    for source, target in zip(sources, targets):
        target.assign(source)


def fused(sources: Sequence[tf.Variable], targets: Sequence[tf.Variable]) -> None:
    """The compiled op, for variables in the main memory. A target that somebody still reads gets new memory, they keep the old.

    Raises:
        CtrlabError: not one target a source. InvalidArgumentError: a pair differs in dtype or shape.
        NativeLibraryError: there is no compiled library for this TensorFlow.
    """
    _agree(sources, targets)
    _native.library().ops.ctrlab_snapshot(sources=[v.handle for v in sources], targets=[v.handle for v in targets])


def _agree(sources, targets) -> None:
    if not len(sources) == len(targets) > 0:
        raise CtrlabError(f"There must be one target a source; received {len(targets)} for {len(sources)} sources.")


OP = Op("snapshot", rung="async_checkpoint", definition=definition, baseline=baseline, fused=fused, differentiable=0)

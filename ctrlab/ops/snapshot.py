"""The snapshot: copies a model's variables into existing ones, between two training steps.

    targets[i] := sources[i]    for every i, of the same dtype and shape

Training only waits for this copy when another thread writes a checkpoint. `baseline` is what a TensorFlow user writes: one
assignment per variable. Reading a variable that sparse updates have touched makes a new tensor, so the system allocates its
memory page by page and takes it back afterwards. The fused op copies everything at once into the targets' own memory, with all
threads, and writes past the caches.

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
    """One assignment per variable."""
    _agree(sources, targets)
    for source, target in zip(sources, targets):
        target.assign(source)


def fused(sources: Sequence[tf.Variable], targets: Sequence[tf.Variable]) -> None:
    """The compiled op, for variables in main memory. A target that is still being read gets new memory; readers keep the old.

    Raises:
        CtrlabError: the numbers of sources and targets differ. InvalidArgumentError: a pair differs in dtype or shape.
        NativeLibraryError: there is no compiled library for this TensorFlow.
    """
    _agree(sources, targets)
    _native.library().ops.ctrlab_snapshot(sources=[v.handle for v in sources], targets=[v.handle for v in targets])


def _agree(sources, targets) -> None:
    if not len(sources) == len(targets) > 0:
        raise CtrlabError(f"There must be one target per source; received {len(targets)} for {len(sources)} sources.")


OP = Op("snapshot", rung="async_checkpoint", definition=definition, baseline=baseline, fused=fused, differentiable=0)

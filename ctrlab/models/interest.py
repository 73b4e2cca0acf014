"""Parts that DIN and DIEN share: the schema as target and history, the query, the weights of attention and GRU, the top.

At each position, the embeddings of all histories (items, their categories, ...) are concatenated. The embeddings of the columns
that these histories belong to (the target) are concatenated too. C is the width of both.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable

import keras
import tensorflow as tf

from ctrlab.errors import CtrlabError
from ctrlab.models import blocks, sharing, tables
from ctrlab.models.sizes import Sizes
from ctrlab.ops import attention, gru, pointwise, shared_attention
from ctrlab.ops.events import Events
from ctrlab.profiling.work import Work
from ctrlab.schema import Schema


class Behaviour:
    """A schema's columns, sorted by their role in an interest model.

    Attributes:
        histories: past events of the user; targets: the columns that the histories belong to, in the same order.
        negatives: for each history, events that did not happen; empty unless every history has them.
        profile: all other id columns.
    Raises:
        CtrlabError: the schema has no history, or two of one column.
    """

    def __init__(self, schema: Schema, model: str):
        self.histories = tuple(s for s in schema.histories if s.of)
        if not self.histories:
            raise CtrlabError(
                f"Model {model!r} needs a Sequence column that is the history of another (`of=`); schema {schema.name!r} has "
                f"none. Models wdl, deepfm, dlrm and mmoe need no history."
            )
        self.targets = tuple(dict.fromkeys(s.of for s in self.histories))
        for of in self.targets:
            if len(same := [s.name for s in self.histories if s.of == of]) > 1:
                raise CtrlabError(
                    f"Model {model!r} needs one history of a column at most; schema {schema.name!r} has {' and '.join(same)} of "
                    f"{of!r}: leave out `of` of all but one, and the model takes the mean of their events."
                )
        negative = {s.negative_of: s for s in schema.sequences if s.negative_of}
        self.negatives = tuple(negative[s.name] for s in self.histories if s.name in negative)
        if len(self.negatives) != len(self.histories):
            self.negatives = ()
        used = {*self.targets, *(s.name for s in self.histories)}
        self.profile = tuple(c.name for c in schema.id_columns if c.name not in used and not getattr(c, "negative_of", ""))

    def embed(
        self, embedding: tables.Embeddings, ids, training=False
    ) -> tuple[list[sharing.Matrix], sharing.Matrix, Histories, Events | None]:
        """The embeddings of all columns.

        Returns:
            profile: one float32 [B, P], or none without such columns.
            target: float32 [B, C].
            the events of the histories (one history per user if candidates share them), and those of the negatives if `ids` has
                them.
        """
        pooled = [names for names in (self.profile, [s.of for s in self.histories]) if names]
        histories = [s.name for s in self.histories]
        rows = [histories, [s.name for s in self.negatives]] if self.negatives and self.negatives[0].name in ids else [histories]
        # In one lookup, the sum over a history reads rows that are still in a cache, and its gradient goes directly to the ids.
        summed = [histories] if embedding.at_once else []
        with tf.control_dependencies(_of_equal_lengths(ids, itertools.chain(*rows))):
            outputs = embedding.lookup(ids, pooled=pooled, summed=summed, rows=rows, training=training)
        *profile, target = outputs[: len(pooled)]
        total = outputs[len(pooled)] if summed else None
        flat = outputs[len(pooled) + len(summed) :]
        first = ids[histories[0]]
        events = Events(sharing.bare(first).row_splits, flat=sharing.bare(flat[0]), total=sharing.bare(total))
        events = sharing.wrapped(events, first.users if isinstance(first, sharing.PerUser) else None)
        return profile, target, events, Events(ids[rows[1][0]].row_splits, flat=flat[1]) if len(rows) > 1 else None


def _of_equal_lengths(ids, names: Iterable[str]) -> list[tf.Operation]:
    """Checks that histories, and their negatives, have as many events in each row. The lookup finds it, too, without names."""
    first, *others = names
    splits, checks = sharing.bare(ids[first]).row_splits, []
    for name in others:
        good = tf.reduce_all(tf.equal(splits, sharing.bare(ids[name]).row_splits))
        said = (
            f"Lists that run side by side must be of equal length in each row; those of {first!r} and {name!r} differ: give each "
            "event one entry in both, or leave out `of` of one."
        )
        checks.append(tf.raw_ops.Assert(condition=good, data=[said]))
    return [check for check in checks if check is not None]


def total(events: Histories) -> sharing.Matrix:
    """The sum of each history's events, [B, C]."""
    return sharing.rowwise(lambda each: each.total, events)


class Attention:
    """Two ways of attention: over one history per row, and over histories that rows share."""

    def __init__(self, rungs):
        self.each, self.shared = attention.OP.pick(rungs), shared_attention.OP.pick(rungs)

    def __call__(self, query: tf.Tensor, keys: Histories, layers) -> tuple[Events | tf.Tensor, tf.Tensor]:
        """The weights, in the form that `GRU.over` takes, and the weighted sums, [B, C]."""
        if isinstance(keys, sharing.PerUser):
            return self.shared(query, keys.values, keys.users.candidates, layers)
        return self.each(query, keys, layers)


class Affine(keras.layers.Layer):
    """scale * x + shift, learned for each number of the last axis.

    This is what the original's BatchNorm layers compute: they run without a training flag, so their means stay 0 and variances 1.
    """

    def __init__(self, width: int, name: str, rungs=()):
        super().__init__(name=name)
        self.width = width
        self.map = pointwise.OP.pick(rungs)
        self.build()

    def build(self, input_shape=None):
        self.scale = self.add_weight(shape=(self.width,), initializer="ones", name="scale")
        self.shift = self.add_weight(shape=(self.width,), initializer="zeros", name="shift")
        self.built = True

    def call(self, x):
        return sharing.elementwise(functools.partial(self.map, "affine"), x, self.shift.value, self.scale.value)


class Query(keras.layers.Layer):
    """The target in the form that attention takes: [B, C] -> dense, PReLU -> [B, H]."""

    def __init__(self, inputs: int, outputs: int, seeds: blocks.Seeds, name: str = "query", rungs=()):
        super().__init__(name=name)
        self.dense = blocks.Tower(inputs, (outputs,), seeds, name=f"{name}_dense", linear_top=True)
        self.prelu = keras.layers.PReLU(alpha_initializer=keras.initializers.Constant(0.1), name=f"{name}_prelu")
        self.outputs = outputs
        self.activate = pointwise.OP.pick(rungs)
        self.build()

    def build(self, input_shape=None):
        self.prelu.build((None, self.outputs))
        self.built = True

    def call(self, target):
        ((kernel, bias),) = layers_of(self.dense)
        return self.activate("prelu", sharing.whole(sharing.product(target, kernel)), bias, self.prelu.alpha.value)


class Head(keras.layers.Layer):
    """The top of both models: affine -> dense layers with ReLU -> one logit per task, [B, inputs] -> [B, K]."""

    def __init__(self, inputs: int, tasks: int, seeds: blocks.Seeds, sizes: Sizes, name: str = "head", rungs=()):
        super().__init__(name=name)
        self.affine = Affine(inputs, f"{name}_affine", rungs)
        units, options = (*sizes.units["head"], tasks), {"rungs": rungs} | sizes.tower
        self.tower = blocks.Tower(inputs, units, seeds, name=f"{name}_tower", linear_top=True, **options)
        self.built = True

    def call(self, x, training=False):
        return self.tower(self.affine(x), training=training)

    def work(self, rows: float) -> Work:
        return self.tower.work(rows)


class GRU(keras.layers.Layer):
    """The weights of a GRU or AUGRU over histories, C -> H, and the way to compute it.

    Glorot-uniform kernels; the gates start half open (bias 1), as in TensorFlow's own cell.

    Args:
        run: the way over a history per row; `shared`: that of an AUGRU over histories that rows share.
    """

    def __init__(self, inputs: int, hidden: int, seeds: blocks.Seeds, run: Callable, name: str, shared: Callable | None = None):
        super().__init__(name=name)
        self.inputs, self.hidden, self.run, self.shared = inputs, hidden, run, shared
        self._initializers = [keras.initializers.GlorotUniform(seed=next(seeds)) for _ in range(2)]
        self.build()

    def build(self, input_shape=None):
        gates, candidate = self._initializers
        joined, h = self.inputs + self.hidden, self.hidden
        self.gates_kernel = self.add_weight(shape=(joined, 2 * h), initializer=gates, name="gates_kernel")
        self.gates_bias = self.add_weight(shape=(2 * h,), initializer="ones", name="gates_bias")
        self.candidate_kernel = self.add_weight(shape=(joined, h), initializer=candidate, name="candidate_kernel")
        self.candidate_bias = self.add_weight(shape=(h,), initializer="zeros", name="candidate_bias")
        self.built = True

    def over(self, events: Histories, weights: Events | tf.Tensor | None = None) -> tuple[Histories | None, sharing.Matrix]:
        """The state after each event, H wide, and the last one, [B, H]. With attention weights it is an AUGRU. Over histories
        that rows share, an AUGRU returns the last state only.
        """
        own = [w.value for w in (self.gates_kernel, self.gates_bias, self.candidate_kernel, self.candidate_bias)]
        if not isinstance(events, sharing.PerUser):
            return self.run(events, *own, weights)
        if weights is not None:
            return None, self.shared(events.values, events.users.candidates, *own, weights)
        return tuple(sharing.wrapped(each, events.users) for each in self.run(events.values, *own, None))

    def work(self, positions: float) -> Work:
        """The work, forward and backward, over `positions` valid positions."""
        return gru.OP.work(positions, self.inputs, self.hidden)


Histories = Events | sharing.PerUser
"""Histories with one entry per row, or one per user."""


def layers_of(tower: blocks.Tower) -> list[tuple[tf.Tensor, tf.Tensor]]:
    """A tower's (kernel, bias) pairs, in the form that ops take."""
    return [(dense.kernel.value, dense.bias.value) for dense in tower.layers]

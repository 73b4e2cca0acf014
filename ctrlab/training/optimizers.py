"""The optimizers as Keras optimizers: the same ones for `fit`, for our own step and for every rung of the ladder.

`ctrlab.ops.sparse_update` defines what a step computes. Keras's own optimizers do not merge the gradients of equal ids, and they
move rows that are not in the batch. These optimizers merge them and move only touched rows. The tables of embedding variables
step their own rows and slots, all in one op.
"""

from __future__ import annotations

import math

import keras
import tensorflow as tf

from ctrlab import devices, keras_hooks, whole_batch
from ctrlab import optimizations as ladder
from ctrlab.embedding.table import ops as table_ops
from ctrlab.embedding.table.proxy import Proxy
from ctrlab.errors import CtrlabError, choose
from ctrlab.ops import merge, sparse_update
from ctrlab.ops.references.sparse_update import KINDS
from ctrlab.profiling.parts import part
from ctrlab.training import gradients

LOSS_SCALE = 2.0**15


@keras.saving.register_keras_serializable("ctrlab")
class TouchedRows(keras_hooks.OneStep, keras.optimizers.LossScaleOptimizer):
    """SGD, Adagrad, FTRL or AdamAsync. Sparse gradients are merged and change only the touched rows and their slots.

    Under the policy mixed_float16 it scales the loss, as `keras.optimizers.LossScaleOptimizer` does for other optimizers.
    Gradients too small for float16 then survive. A step with a gradient that is not finite is skipped completely, including
    tables and counts. Keras's LossScaleOptimizer can't wrap this one: it makes each sparse gradient dense, which is impossible
    for keys. This class is derived from it so that `compile` does not wrap it.

    A step is refused if its loss, a gradient or the learning rate is not finite (under a loss scale, it is skipped for the first
    two), or if a table has no room. It changes no table, variable, slot or count, so the batch can be repeated. In `train` and in
    the `fit` of our models, values that layers assign in the forward pass must be finite, too: moving statistics of batch
    normalization, dropout seeds. A refusal leaves them unchanged. In the `fit` of another Keras model they stay assigned, and the
    error is TensorFlow's, with our sentence in it. Metrics stay updated. Under a distribution strategy only the loss is checked.

    Args:
        kind: one of "sgd", "adagrad", "ftrl", "adam_async".
        learning_rate: a float or a Keras schedule.
        clip_norm: the maximum L2 norm of one variable's merged gradient; None for no clipping.
        rule: the other numbers of `sparse_update.Rule` by name (beta1, beta2, epsilon, l1, l2, initial_accumulator).
        rungs: as in `ctrlab.optimizations.resolve`, with level "model": with "lookup" one op of ours steps all variables;
            otherwise TensorFlow's kernels do, with several ops per variable.
        loss_scale: the initial factor on the loss. It doubles after 2,000 good steps in a row and halves after a skipped step. 0:
            no scaling. None: 2^15 if Keras's global policy is mixed_float16 at this moment, otherwise 0. With 0 the optimizer
            refuses to step an `Embedding` that computes in float16.
    Raises:
        UnknownName: no such kind or rung. CtrlabError: a rung of another level; a scale below 0 or not finite; another
            LossScaleOptimizer is wrapped around it. InvalidArgumentError, in a step: FTRL's learning rate is not above 0, as in a
            warm-up from 0.

    >>> optimizer = TouchedRows("adam_async", 1e-3)
    """

    def __init__(self, kind="adam_async", learning_rate=1e-3, clip_norm=None, rule=None, rungs=(), loss_scale=None, name=None):
        self.inner_optimizer.__init__(learning_rate=learning_rate, name=name or choose("optimizer", kind, KINDS))
        if loss_scale is not None and not 0 <= loss_scale < math.inf:
            raise CtrlabError(f"The scale of a loss must be at least 0 and finite; received {loss_scale}.")
        of_policy = LOSS_SCALE if keras.config.dtype_policy().name == "mixed_float16" else 0.0
        self.initial_scale = of_policy if loss_scale is None else float(loss_scale)
        self.dynamic_growth_steps = 2_000
        self._may_underflow = loss_scale == 0
        self.kind = kind
        self.clip_norm = clip_norm
        self.rule = sparse_update.Rule(kind, **(rule or {}))
        self._rule_options = dict(rule or {})
        self.rungs = frozenset(ladder.resolve(rungs, level="model"))
        self._merge, self._update = merge.OP.pick(self.rungs), sparse_update.OP.pick(self.rungs)
        self.changes = None  # `ctrlab.training.changes.track` sets it
        self.was_traced = False

    @property
    def inner_optimizer(self):
        """Keras's name for the optimizer inside the loss scale: here this object itself."""
        return super(keras.optimizers.LossScaleOptimizer, self)

    variables = keras.optimizers.Optimizer.variables
    learning_rate = keras.optimizers.Optimizer.learning_rate

    def __setattr__(self, name, value):
        if name == "loss_scale_factor" and hasattr(self, "rule"):
            raise CtrlabError(
                "TouchedRows scales the loss itself, under the policy mixed_float16 or with loss_scale; received another scale "
                "around it: give compile the TouchedRows."
            )
        super().__setattr__(name, value)

    @property
    def _scaled(self):
        """This optimizer with its loss scale, if it has one."""
        return super() if self.initial_scale else self.inner_optimizer

    def build(self, variables):
        """Makes the slots of `variables`, Keras variables or those of embedding variables; the first call decides.

        Raises:
            CtrlabError: an embedding variable is read in float16 and the loss is not scaled.
        """
        if self.built:
            return
        halves = [v.name for v in variables if isinstance(v, Proxy) and v.read_as == "float16"]
        if halves and not (self.initial_scale or self._may_underflow):
            raise CtrlabError(
                f"Embedding variable {halves[0]} is read in float16, where small gradients become 0 unless the loss is scaled: "
                "make TouchedRows under the global policy mixed_float16, or give it loss_scale=2**15, or 0 for no scale."
            )
        self._scaled.build(variables)
        self._slots = [self._make_slots(v) for v in variables]

    def _make_slots(self, variable) -> dict[str, keras.Variable]:
        if isinstance(variable, Proxy):
            variable.table.set_slots(self.rule.slots)
            variable.table.open_storage()
            return {}
        slots = {
            slot: self.add_variable_from_reference(variable, name=slot, initializer=keras.initializers.Constant(value))
            for slot, value in self.rule.slots.items()
        }
        for slot in slots.values():
            slot.sharded = whole_batch.is_sharded(variable)
        return slots

    def apply(self, grads, trainable_variables=None):
        self._scaled.apply(grads, trainable_variables)

    def scale_loss(self, loss):
        return self._scaled.scale_loss(gradients.of_finite(loss, self.iterations.value, skips=bool(self.initial_scale)))

    def check_finite(self, grads):
        """Whether all gradients, dense or `tf.IndexedSlices`, are finite: bool scalar. Keras asks it under a loss scale."""
        return super().check_finite([g.values if isinstance(g, tf.IndexedSlices) else g for g in grads])

    def step_all(self, gradients, variables, learning_rate):
        if not tf.distribute.has_strategy():
            self._step(gradients, variables, learning_rate)
            return
        if tables := [v.name for v in variables if isinstance(v, Proxy)]:
            raise CtrlabError(
                f"Embedding variables can't be trained under a distribution strategy; received {tables[0]}: "
                "train in one process, outside of the strategy's scope."
            )
        if self.changes:
            raise CtrlabError(
                "Changes can't be tracked under a distribution strategy: train in one process, outside of its scope."
            )
        # Each replica steps its variables separately; the results are the same.
        self.step_each(gradients, variables, learning_rate)

    @part("optimizer")
    def _step(self, grads, variables, learning_rate):
        """Steps all variables. Every refusal happens before the first of them changes, and a refused step is not counted.

        The tables go first, in one op that changes all of them or none, because only the tables can find that there is no room.
        What the dense variables would refuse is checked before that.
        """
        self.was_traced |= not tf.executing_eagerly()
        numbers = self._numbers(learning_rate)
        tables = [(v, g) for v, g in zip(variables, grads) if isinstance(v, Proxy)]
        dense = [(v, self._merged(v, gradients.fitting(v, g))) for v, g in zip(variables, grads) if not isinstance(v, Proxy)]
        # The tables check their own; but what one worker refuses, all must.
        checked = [*dense, *((v, table_ops.merged_slices(v.table, g)) for v, g in tables if whole_batch.batch())]
        norms = gradients.halved_squares(*zip(*checked)) if checked else None
        done = _given([gradients.finite([v for v, _ in checked], norms, self.iterations.value)]) if checked else []
        step = tf.cast(self.iterations + 1, tf.int64)
        tables = [(v.table, g) for v, g in tables]
        with tf.control_dependencies(done):
            if self.clip_norm is not None and whole_batch.batch():
                dense, tables = self._clipped_over_workers(dense, tables, norms, step)
            if tables:
                done = _given([table_ops.step(self.rule, tables, numbers[0], step, self.clip_norm)])
        with tf.control_dependencies(done):
            if dense:
                done = [*done, self._update_all(dense, numbers)]
        # In a graph an assignment waits for earlier reads, so no count changes before the step is known to succeed.
        with tf.control_dependencies(_given(done)):
            if self.changes:
                self.changes.note(dense)
            for count in self._counts:
                count.value.read_value()

    def _clipped_over_workers(self, dense: list, tables: list, norms, step) -> tuple[list, list]:
        """The updates, with gradients of sharded rows clipped by their norm over all workers. Each worker's part of the norm
        is then below the limit, so its own step does not clip again.
        """
        sharded = [whole_batch.is_sharded(v) for v, _ in dense]
        factors = [gradients.clip_factor(2 * norm, self.clip_norm) for norm in tf.unstack(norms[: len(dense)], len(dense))]
        dense = [(v, gradients.scaled(g, f) if apart else g) for (v, g), f, apart in zip(dense, factors, sharded)]
        if tables:
            squares = tf.unstack(whole_batch.total(table_ops.norms(self.rule, tables, step)), len(tables))
            factors = [gradients.clip_factor(tf.cast(square, tf.float32), self.clip_norm) for square in squares]
            tables = [(t, table_ops.scaled(t, g, f)) for (t, g), f in zip(tables, factors)]
        return dense, tables

    @property
    def _counts(self) -> list[keras.Variable]:
        return [self.iterations, *([self.step_counter, self.dynamic_scale] if self.initial_scale else [])]

    @part("optimizer")
    def update_step(self, gradient, variable, learning_rate):
        """Steps one variable, as Keras does under a distribution strategy.

        Args:
            gradient: dense, with the variable's shape, or `tf.IndexedSlices`. learning_rate: float scalar.
        """
        self._update_all([(variable, self._merged(variable, gradient))], self._numbers(learning_rate))

    def _merged(self, variable, gradient):
        if not isinstance(gradient, tf.IndexedSlices) or merge.is_merged(gradient):
            return gradient
        # Checked before merging: our op takes -1 as "unknown", which is valid in batches but not in gradients, and drops its row.
        with tf.control_dependencies(_given([gradients.ids_are_rows(variable, gradient)])):
            return self._merge(gradient, variable.shape)

    def _update_all(self, variables_and_gradients, numbers) -> tf.Operation | None:
        updates = [(_native(v), self._slots_of(v), g) for v, g in variables_and_gradients]
        return self._update(self.rule, updates, *numbers, clip_norm=self.clip_norm)

    def _slots_of(self, variable) -> dict[str, tf.Variable]:
        return {name: slot.value for name, slot in self._slots[self.index_of(variable)].items()}

    def _numbers(self, learning_rate) -> tuple[tf.Tensor, tf.Tensor]:
        """The learning rate and the number of this step (1 for the first), float32."""
        rate = sparse_update.usable_rate(self.rule, tf.cast(learning_rate, tf.float32))
        with tf.control_dependencies([rate]):  # Keras increments its step count after this read, so a refused step is not counted
            return rate, tf.cast(self.iterations + 1, tf.float32)

    def get_config(self):
        config = self.inner_optimizer.get_config()
        keep = {k: config[k] for k in ("name", "learning_rate")}
        keep |= {"kind": self.kind, "clip_norm": self.clip_norm, "rule": self._rule_options, "rungs": sorted(self.rungs)}
        # 0, not None, for no scale: when it is loaded the policy may differ, and a scale adds variables.
        return keep | {"loss_scale": self.initial_scale, "may_underflow": self._may_underflow}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        may_underflow = config.pop("may_underflow", config.get("loss_scale") == 0)  # older versions did not write it
        if config.pop("fused", False):  # older versions wrote "fused" where there are rungs now
            config["rungs"] = [sparse_update.OP.rung]
        made = super(keras.optimizers.LossScaleOptimizer, cls).from_config(config, custom_objects)
        made._may_underflow = may_underflow
        return made


def _native(variable) -> tf.Variable:
    return variable.value if isinstance(variable, keras.Variable) else variable


def _given(done: list) -> list:
    """The list without the Nones of ops that have already run eagerly."""
    return [op for op in done if op is not None]


def make_optimizer(model, hyper=None) -> TouchedRows:
    """The optimizer that a model's `hyper` describes, or the one that another `hyper` (`ctrlab.models.Hyper`) describes."""
    hyper = hyper or model.hyper
    rule = {"initial_accumulator": hyper.initial_accumulator}
    with devices.of(model):
        return TouchedRows(hyper.optimizer, hyper.learning_rate, hyper.clip_norm, rule, model.rungs)

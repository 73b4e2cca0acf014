"""One optimizer step, on the touched rows of a table or on a whole dense variable.

Gradients of equal ids are summed first (`ctrlab.ops.merge`), then only the touched rows and their slots change. Keras's own
optimizers do not do this. The baseline steps each variable with TensorFlow's kernels; `fused` steps all variables of a model
in one op.

    sgd         w -= lr g
    adagrad     a += g^2 ;                     w -= lr g / sqrt(a)                          Duchi et al., 2011
    ftrl        n' = n + g^2 ; s = (sqrt(n') - sqrt(n)) / lr ; z += g - s w                 McMahan et al., 2013
                w = 0  where |z| <= l1, else (sign(z) l1 - z) / (sqrt(n') / lr + 2 l2)
    adam_async  m = b1 m + (1-b1) g ; v = b2 v + (1-b2) g^2                                 DeepRec's AdamAsync: Adam whose
                w -= lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps)                     untouched rows stay as they are

Every way takes

    rule: the optimizer.
    updates: (variable, {name: slot}, gradient) for each variable: [V, D] or any dense shape, and slots of that shape; a gradient
        of that shape, or merged tf.IndexedSlices of ids int64 [u] and rows float32 [u, D].
    learning_rate, step: float32 scalars; step is 1 for the first.
    clip_norm: the maximum L2 norm of a variable's gradient; None for no clipping.

and changes variables and slots. In a graph it returns the op that others can wait for, if there is a single one. DeepRec keeps
b1^t and b2^t in one variable each. Here every variable takes part in every step, so t is the optimizer's own count.
"""

from __future__ import annotations

import tensorflow as tf

from ctrlab import _native, devices
from ctrlab.ops.op import Op
from ctrlab.ops.references import sparse_update as definition
from ctrlab.ops.references.sparse_update import FTRL_RATE, SMALLEST_RATE, Rule

FINITE_RATE = "A learning rate must be finite in float32"


def usable_rate(rule: Rule, learning_rate) -> tf.Tensor:
    """`learning_rate`, float32 scalar, after a check that the rule can take it.

    TensorFlow's sparse FTRL kernel refuses a rate of 0. Its dense one divides 0 by 0, and the weight stays NaN.

    Raises:
        InvalidArgumentError: the rate is not finite; FTRL's is not above 0.
    """
    learning_rate = tf.convert_to_tensor(learning_rate, tf.float32)
    usable, sentence = tf.math.is_finite(learning_rate), f"{FINITE_RATE}; nothing was changed; received"
    if rule.kind == "ftrl":
        usable &= learning_rate >= SMALLEST_RATE
        sentence = f"{FTRL_RATE}: let a warm-up begin above 0; nothing was changed; received"
    check = tf.raw_ops.Assert(condition=usable, data=[sentence, learning_rate])
    with tf.control_dependencies([check] if check is not None else []):
        return tf.identity(learning_rate)


def baseline(rule: Rule, updates, learning_rate, step, clip_norm: float | None = None) -> None:
    """TensorFlow's own kernels, several per variable.

    Raises:
        InvalidArgumentError: the learning rate is not finite; FTRL's is not above 0.
    """
    learning_rate = usable_rate(rule, learning_rate)
    for w, slots, gradient in updates:
        _step(rule, w, slots, gradient if clip_norm is None else _clipped(gradient, clip_norm), learning_rate, step)


def _clipped(gradient, norm: float):
    if not isinstance(gradient, tf.IndexedSlices):
        return tf.clip_by_norm(gradient, norm)
    return tf.IndexedSlices(tf.clip_by_norm(gradient.values, norm), gradient.indices, gradient.dense_shape)


def _step(rule: Rule, w: tf.Variable, slots: dict[str, tf.Variable], gradient, learning_rate, step) -> None:
    sparse = isinstance(gradient, tf.IndexedSlices)
    if rule.kind == "adam_async":
        (_adam_sparse if sparse else _adam_dense)(rule, w, slots, gradient, learning_rate, step)
        return
    grad = {"grad": gradient.values, "indices": gradient.indices} if sparse else {"grad": gradient}
    if rule.kind == "sgd":
        if sparse:
            w.scatter_sub(tf.IndexedSlices(learning_rate * gradient.values, gradient.indices))
        else:
            tf.raw_ops.ResourceApplyGradientDescent(var=w.handle, alpha=learning_rate, delta=gradient)
    elif rule.kind == "adagrad":
        apply = tf.raw_ops.ResourceSparseApplyAdagrad if sparse else tf.raw_ops.ResourceApplyAdagrad
        apply(var=w.handle, accum=slots["accumulator"].handle, lr=learning_rate, **grad)
    else:
        apply = tf.raw_ops.ResourceSparseApplyFtrl if sparse else tf.raw_ops.ResourceApplyFtrl
        accumulators = {"accum": slots["accumulator"].handle, "linear": slots["linear"].handle}
        apply(var=w.handle, **accumulators, lr=learning_rate, l1=rule.l1, l2=rule.l2, lr_power=-0.5, **grad)


def fused(rule: Rule, updates, learning_rate, step, clip_norm: float | None = None) -> tf.Operation | None:
    """The compiled op: clips gradients, then changes weights and slots in place. In a graph it returns the op. Variables on a GPU
    are stepped by TensorFlow's kernels there.

    Raises:
        InvalidArgumentError: ids that are not ascending or that repeat; shapes do not agree; FTRL's learning rate is not above 0.
        NativeLibraryError: there is no compiled library for this TensorFlow.
    """
    elsewhere = [update for update in updates if not devices.is_ours(update[0])]
    if elsewhere:
        baseline(rule, elsewhere, learning_rate, step, clip_norm)
        updates = [update for update in updates if devices.is_ours(update[0])]
        if not updates:
            return None
    sparse = [update for update in updates if isinstance(update[2], tf.IndexedSlices)]
    dense = [update for update in updates if not isinstance(update[2], tf.IndexedSlices)]
    return _native.library().ops.ctrlab_optimizer_step(
        variables=[w.handle for w, _, _ in sparse + dense],
        slots=[slots[name].handle for _, slots, _ in sparse + dense for name in rule.slots],
        ids=[tf.cast(g.indices, tf.int64) for _, _, g in sparse],
        gradients=[g.values for _, _, g in sparse] + [g for _, _, g in dense],
        learning_rate=learning_rate,
        step=step,
        numbers=rule.numbers(clip_norm),
        kind=rule.kind,
    )


def _adam_dense(rule: Rule, w, slots, gradient, learning_rate, step) -> None:
    tf.raw_ops.ResourceApplyAdam(
        var=w.handle,
        m=slots["m"].handle,
        v=slots["v"].handle,
        beta1_power=tf.pow(rule.beta1, step),
        beta2_power=tf.pow(rule.beta2, step),
        lr=learning_rate,
        beta1=rule.beta1,
        beta2=rule.beta2,
        epsilon=rule.epsilon,
        grad=gradient,
    )


def _adam_sparse(rule: Rule, w, slots, gradient, learning_rate, step) -> None:
    """Gather, compute, scatter: TensorFlow has no sparse Adam kernel."""
    ids, g = gradient.indices, gradient.values
    m = rule.beta1 * tf.gather(slots["m"], ids) + (1 - rule.beta1) * g  # [u, D]
    v = rule.beta2 * tf.gather(slots["v"], ids) + (1 - rule.beta2) * tf.square(g)  # [u, D]
    slots["m"].scatter_update(tf.IndexedSlices(m, ids))
    slots["v"].scatter_update(tf.IndexedSlices(v, ids))
    rate = learning_rate * tf.sqrt(1 - tf.pow(rule.beta2, step)) / (1 - tf.pow(rule.beta1, step))
    w.scatter_sub(tf.IndexedSlices(rate * m / (tf.sqrt(v) + rule.epsilon), ids))


OP = Op("sparse_update", rung="lookup", definition=definition, baseline=baseline, fused=fused, differentiable=0)

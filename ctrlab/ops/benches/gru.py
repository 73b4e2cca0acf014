"""Benches of GRU and AUGRU: DIEN's width at full length, in large and small batches, and at the lengths of amazon_reviews."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from ctrlab.ops import gru
from ctrlab.ops.benches import histories, onednn
from ctrlab.ops.benches.bench import Bench
from ctrlab.ops.events import Events

WIDTH = HIDDEN = 36  # C, H


def full_length(rows: int, length: int, attended: bool, small: bool = False) -> Bench:
    """Every history as long as the longest, without padding, so only the loop itself is compared."""
    if small:
        rows, length = 16, 5
    return _bench(np.full(rows, length), attended)


def real_lengths(attended: bool, small: bool = False) -> Bench:
    """Lengths as in amazon_reviews: many short histories, a few of the model's maximum length."""
    return _bench(histories.real_lengths(np.random.default_rng(0), 16 if small else 512), attended)


BENCHES: dict[str, Callable[..., Bench]] = {
    f"{name}{suffix}": functools.partial(bench, attended=attended)
    for name, attended in (("gru", False), ("augru", True))
    for suffix, bench in {
        "": functools.partial(full_length, 1024, 100),
        "_128": functools.partial(full_length, 128, 50),
        "_lengths": real_lengths,
    }.items()
}


def _bench(lengths: np.ndarray, attended: bool) -> Bench:
    rng = np.random.default_rng(0)
    splits = np.concatenate([[0], np.cumsum(lengths)])
    count, most, rows = splits[-1], lengths.max(), len(lengths)
    joined = WIDTH + HIDDEN
    shapes = [(joined, 2 * HIDDEN), (2 * HIDDEN,), (joined, HIDDEN), (HIDDEN,)]
    weights = [rng.normal(size=shape, scale=0.15).astype(np.float32) for shape in shapes]
    pool = rng.standard_normal(count * WIDTH * 2, dtype=np.float32)

    def batch(call: int) -> tuple:
        """The same histories, padded and flat; each variant takes the form that it is made for."""
        start = call % 64 * 16  # cheap new numbers for each call
        flat = [pool[start : start + count * WIDTH].reshape(count, WIDTH), pool[-count * HIDDEN :].reshape(count, HIDDEN)]
        if attended:
            flat.append(np.abs(np.tanh(pool[start : start + count])))
        flat = [tf.constant(a) for a in flat]
        return *flat, *[tf.RaggedTensor.from_row_splits(a, splits).to_tensor() for a in flat]

    work = gru.OP.work(count, WIDTH, HIDDEN, attended)
    variants = {"baseline": _step(_over(gru.baseline, splits, "padded"), weights, flat=False)}
    if not attended:
        variants["keras"] = _step(_keras(lengths), weights, flat=False)
        variants["keras_xla"] = _step(_keras(lengths), weights, flat=False, jit_compile=True)
    if onednn.program() is not None and rows * most == count:
        x, d_outputs, *attention = [np.asarray(a) for a in batch(0)[2 + attended :]]
        variants["onednn"] = onednn.Gru(x, *weights, attention[0] if attended else None, d_outputs)
    variants["fused"] = _step(_over(gru.fused, splits, "flat"), weights, flat=True)
    shape = f"B={rows}, T={most}, N={count}, C={WIDTH}, H={HIDDEN}"
    return Bench(shape=shape, variants=variants, make_inputs=batch, work=work)


def _over(way: Callable, splits, form: str) -> Callable:
    """A function that runs a way of `gru` on tensors and returns its outputs in its own form."""
    made = functools.partial(Events, tf.constant(splits))

    def outputs(x, *rest):
        *weights, attention = rest if len(rest) > 4 else (*rest, None)
        events = made(**{form: x})
        found, _ = way(events, *weights, None if attention is None else made(**{form: attention}))
        return getattr(found, form)

    return outputs


def _step(outputs_of: Callable, weights, flat: bool, **options) -> Callable:
    """Forward and backward, on the form of the batch that the way takes."""
    weights = [tf.constant(w) for w in weights]

    @functools.partial(tf.function, autograph=False, **options)
    def step(*batch):
        half = len(batch) // 2
        x, d_outputs, *attention = batch[:half] if flat else batch[half:]
        with tf.GradientTape() as tape:
            tape.watch([x, *weights, *attention])
            outputs = outputs_of(x, *weights, *attention)
        return outputs, tape.gradient(outputs, [x, *weights, *attention], output_gradients=d_outputs)

    return step


def _keras(lengths: np.ndarray) -> Callable:
    """Keras's GRU(reset_after=False), with its cell and loop, and with masks if there is padding."""
    mask = None if lengths.min() == lengths.max() else tf.sequence_mask(lengths)
    cell = tf.keras.layers.GRUCell(HIDDEN, reset_after=False)
    cell.built = True
    layer = tf.keras.layers.RNN(cell, return_sequences=True, zero_output_for_mask=True)
    layer.built = True

    def run(x, gates_kernel, gates_bias, candidate_kernel, candidate_bias):
        reset, update = tf.split(gates_kernel, 2, axis=1)
        kernel = tf.concat([update, reset, candidate_kernel], axis=1)  # Keras keeps update, reset, candidate
        cell.kernel, cell.recurrent_kernel = kernel[:WIDTH], kernel[WIDTH:]
        cell.bias = tf.concat([gates_bias[HIDDEN:], gates_bias[:HIDDEN], candidate_bias], axis=0)
        return layer(x, mask=mask)

    return run

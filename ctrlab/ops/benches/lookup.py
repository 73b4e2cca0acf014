"""Benches of the lookup of all columns, with the optimizer's step on the touched rows."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from ctrlab.ops import lookup, merge, sparse_update
from ctrlab.ops.benches.bench import Bench
from ctrlab.ops.references.sparse_update import Rule, rows_work
from ctrlab.profiling.roofline import Work

TABLES, ROWS, DIM = 26, 100_000, 16


def one_id(small: bool = False, batch: int = 512, kind: str = "adagrad") -> Bench:
    """Criteo's 26 columns, one id each: lookup, merged gradient, step."""
    return _bench(batch, 1, kind, small)


def twenty_ids(small: bool = False, batch: int = 512, kind: str = "adagrad") -> Bench:
    """26 columns of twenty ids each, summed: lookup, merged gradient, step."""
    return _bench(batch, 20, kind, small)


def forward_alone(small: bool = False, length: int = 1) -> Bench:
    """The lookup without gradient and step, as in serving."""
    return _bench(512, length, None, small)


def _bench(batch: int, length: int, kind: str | None, small: bool) -> Bench:
    tables, rows = (3, 1_000) if small else (TABLES, ROWS)
    layout = lookup.Layout(tuple(range(tables)), ("sum",) * tables, (0,) * tables)

    def inputs(call: int) -> tuple:
        rng = np.random.default_rng(call)
        # The ids are passed as one tensor, which the step splits: passing 26 tensors into a tf.function takes longer than the
        # lookup.
        ids = tf.constant(rng.integers(0, rows, (tables, batch * length)))
        return ids, tf.constant(rng.standard_normal((batch, tables * DIM), dtype=np.float32))

    def variant(way: str) -> Callable:
        return _step(way, layout, _variables(tables, rows, kind), length, kind)

    hits = tables * batch * length
    touched = tables * rows * (1 - (1 - 1 / rows) ** (batch * length))  # distinct ids, drawn uniformly
    work = lookup.OP.work(hits, touched, DIM, trained=bool(kind))
    work += Work(bytes=4.0 * (1 + bool(kind)) * batch * tables * DIM)  # the output, and its gradient
    if kind:
        work += rows_work(touched, DIM, len(Rule(kind).slots))
    ids = "1 id" if length == 1 else f"{length} ids"
    return Bench(
        shape=f"{tables} tables of {rows} x {DIM}, B={batch}, {ids} a column, {kind or 'forward alone'}",
        variants={way: variant(way) for way in ("baseline", "fused")},
        make_inputs=inputs,
        work=work,
    )


def _variables(tables: int, rows: int, kind: str | None) -> list[tuple[tf.Variable, dict[str, tf.Variable]]]:
    """(table, its slots) for each table."""
    slots = Rule(kind).slots if kind else {}
    made = []
    for t in range(tables):
        start = tf.random.stateless_normal((rows, DIM), (0, t))
        made.append((tf.Variable(start), {name: tf.Variable(tf.fill((rows, DIM), value)) for name, value in slots.items()}))
    return made


def _step(way: str, layout: lookup.Layout, variables, length: int, kind: str | None) -> Callable:
    tables = [table for table, _ in variables]
    rate, number = tf.constant(0.01), tf.constant(1.0)

    @functools.partial(tf.function, autograph=False)
    def step(ids, d_out):
        columns = tf.unstack(ids)  # [B * length] each
        if length > 1:
            splits = tf.range(0, tf.size(columns[0], tf.int64) + 1, length)
            first = tf.RaggedTensor.from_row_splits(columns[0], splits, validate=False)
            columns = [first.with_values(column) for column in columns]  # row numbers are computed once
        with tf.GradientTape() as tape:
            (out,) = lookup.OP.ways[way](tables, columns, layout)
        if kind is None:
            return out
        gradients = tape.gradient(out, tables, output_gradients=d_out)
        merged = [merge.OP.ways[way](gradient, table.shape) for gradient, table in zip(gradients, tables)]
        updates = [(*variable, gradient) for variable, gradient in zip(variables, merged)]
        sparse_update.OP.ways[way](Rule(kind), updates, rate, number)
        return out

    return step


BENCHES: dict[str, Callable[..., Bench]] = {
    "lookup": one_id,
    "lookup_adam": functools.partial(one_id, kind="adam_async"),
    "lookup_128": functools.partial(one_id, batch=128),
    "lookup_alone": forward_alone,
    "lookup_20": twenty_ids,
    "lookup_20_adam": functools.partial(twenty_ids, kind="adam_async"),
    "lookup_20_128": functools.partial(twenty_ids, batch=128),
    "lookup_20_alone": functools.partial(forward_alone, length=20),
}

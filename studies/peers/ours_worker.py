"""Our side: `python -m studies.peers.ours_worker`. It runs the models with all rungs, and the ops as the models call them."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import numpy as np
import tensorflow as tf

from ctrlab import data
from ctrlab.embedding.table import ops as table_ops
from ctrlab.embedding.table_state import TableState
from ctrlab.embedding.variable import EmbeddingVariable
from ctrlab.models import blocks, build
from ctrlab.ops import gru, lookup, merge, sparse_update
from ctrlab.ops.events import Events
from ctrlab.ops.references.sparse_update import Rule, rows_work
from ctrlab.optimizations import of_level
from ctrlab.profiling.work import Work
from ctrlab.schema import IdColumn, Schema
from ctrlab.training import TouchedRows, train_step
from ctrlab.training.threads import Setting, apply_threads
from studies.peers import cases
from studies.peers.cases import Batch, Case
from studies.peers.session import Running, serve_cases


def prepare_lookup(case: Case, batches: list[Batch], threads: int) -> Running:
    apply_threads(Setting(intra=threads, inter=threads))
    rule, trains = Rule("adagrad", initial_accumulator=cases.FIRST_ACCUMULATOR), case.kind == "lookup"
    tables = [tf.Variable(cases.first_table(t, case.rows, case.dim)) for t in range(case.tables)]
    slots = [{name: tf.Variable(tf.fill(w.shape, value)) for name, value in rule.slots.items()} for w in tables] if trains else []
    rate, number = tf.constant(cases.LEARNING_RATE), tf.constant(1.0)

    def look_up(ids):
        (out,) = lookup.fused(tables, _columns(case, ids), _layout(case))
        return out  # [B, F * D]

    @functools.partial(tf.function, autograph=False)
    def step(ids, d_out):
        with tf.GradientTape() as tape:
            out = look_up(ids)
        gradients = tape.gradient(out, tables, output_gradients=d_out)
        merged = [merge.fused(g, table.shape) for g, table in zip(gradients, tables)]
        sparse_update.fused(rule, list(zip(tables, slots, merged)), rate, number)
        return out

    forward = tf.function(lambda ids, d_out: look_up(ids), autograph=False)
    given = [(tf.constant(b["ids"]), tf.constant(b["d_out"])) for b in batches]

    def outputs() -> dict[str, np.ndarray]:
        before = (step if trains else forward)(*given[0])
        return {"before": before.numpy()} | ({"after": forward(*given[0]).numpy()} if trains else {})

    return _running(lambda i: (step if trains else forward)(*given[i]), outputs, _lookup_work(case, batches, trains))


def prepare_variable(case: Case, batches: list[Batch], threads: int) -> Running:
    """Embedding variables that already contain every id."""
    apply_threads(Setting(intra=threads, inter=threads))
    rule = Rule("adagrad", initial_accumulator=cases.FIRST_ACCUMULATOR)
    tables = [_filled(t, case) for t in range(case.tables)]
    for table in tables:
        table.set_slots(rule.slots)
    number = tf.Variable(0, dtype=tf.int64)  # the step's number

    def look_up(ids, training):
        (out,) = table_ops.grouped(tables, _columns(case, ids), _layout(case), training)
        return out  # [B, F * D]

    @functools.partial(tf.function, autograph=False)
    def step(ids, d_out):
        with tf.GradientTape() as tape:
            out = look_up(ids, training=True)
        gradients = tape.gradient(out, [table.proxy.value for table in tables], output_gradients=d_out)
        table_ops.step(rule, list(zip(tables, gradients)), tf.constant(cases.LEARNING_RATE), number.assign_add(1))
        return out

    given = [(tf.constant(b["ids"]), tf.constant(b["d_out"])) for b in batches]

    def outputs() -> dict[str, np.ndarray]:
        return {"before": step(*given[0]).numpy(), "after": look_up(given[0][0], training=False).numpy()}

    return _running(lambda i: step(*given[i]), outputs, _lookup_work(case, batches, trains=True))


def _filled(t: int, case: Case) -> EmbeddingVariable:
    table, values = EmbeddingVariable(f"t{t}", case.dim), cases.first_table(t, case.rows, case.dim)
    ones = np.ones(case.rows, np.int64)
    table.load_state(TableState(np.arange(case.rows), values, {}, frequencies=ones, steps=ones))
    return table


def _columns(case: Case, ids: tf.Tensor) -> list:
    """F columns of [B * L] ids, ragged if an example has several."""
    columns = tf.unstack(ids)
    if case.length == 1:
        return columns
    splits = tf.range(0, tf.size(columns[0], tf.int64) + 1, case.length)
    first = tf.RaggedTensor.from_row_splits(columns[0], splits, validate=False)
    return [first.with_values(column) for column in columns]


def _layout(case: Case) -> lookup.Layout:
    """One table per column, the sums side by side."""
    return lookup.Layout(tuple(range(case.tables)), ("sum",) * case.tables, (0,) * case.tables)


def _lookup_work(case: Case, batches: list[Batch], trains: bool) -> Work:
    hits = case.tables * case.batch * case.length
    touched = float(np.mean([sum(len(np.unique(ids)) for ids in batch["ids"]) for batch in batches]))
    work = lookup.OP.work(hits, touched, case.dim, trained=trains)
    work += Work(bytes=4.0 * (1 + trains) * case.batch * case.tables * case.dim)  # the output, and its gradient
    return work + rows_work(touched, case.dim, slots=1) if trains else work


def prepare_model(case: Case, batches: list[Batch], threads: int) -> Running:
    apply_threads(Setting(intra=threads, inter=threads))
    schema = data.schema("amazon_reviews" if case.kind == "din" else "criteo")
    model = build(case.kind, _resized(schema, case), of_level("all", "model"), dim=case.dim)
    for variable in model.trainable_variables:
        if (first := _first(model, variable)) is not None:
            variable.assign(first)
    rule = {"initial_accumulator": cases.FIRST_ACCUMULATOR}
    train = train_step(model, TouchedRows("adagrad", cases.LEARNING_RATE, rule=rule, rungs=["lookup"]))
    features = _history_features if case.kind == "din" else functools.partial(_click_features, model)
    step = tf.function(lambda batch: train(features(batch), batch["labels"]), autograph=False, reduce_retracing=True)
    given = [{name: tf.constant(array) for name, array in batch.items()} for batch in batches]

    def losses() -> dict[str, np.ndarray]:
        return {
            "losses": np.array([float(step(batch)) for batch in itertools.islice(itertools.cycle(given), cases.CHECKED_STEPS)])
        }

    return _running(lambda i: float(step(given[i])), losses, _model_work(model, case, batches))


def _model_work(model, case: Case, batches: list[Batch]) -> Work:
    """The model's own least work, minus one slot: it counts Adam's two slots, but Adagrad has one."""
    positions = float(np.mean([2 * batch["splits"][-1] for batch in batches])) if case.kind == "din" else 0.0
    hits = len(model.schema.categoricals) * case.batch + positions
    dense = sum(np.prod(v.shape) for v in model.trainable_variables if not v.path.startswith("embedding/"))
    slot = Work(bytes=8.0 * float(dense), random_rows=hits, row_bytes=4 * case.dim)
    return model.work(case.batch, positions) + -1.0 * slot


def _resized(schema: Schema, case: Case) -> Schema:
    """The schema with the case's table sizes."""

    def resize(column):
        rows = case.sizes.get(column.table, case.sizes.get("rows")) if isinstance(column, IdColumn) else None
        return dataclasses.replace(column, buckets=rows) if rows else column

    return dataclasses.replace(schema, columns=tuple(map(resize, schema.columns)))


def _first(model, variable) -> np.ndarray | None:
    """The common initial weights of all sides; None for variables that begin equal anyway (zeros, ones)."""
    *_, owner, name = variable.path.split("/")
    if owner == "embedding":
        return cases.first_table(name, *variable.shape)
    if name == "kernel":
        return cases.first_kernel(variable.path.removesuffix("/kernel"), *variable.shape)
    return None


def _click_features(model, batch):
    names = [column.name for column in model.schema.id_columns]
    return dict(zip(names, tf.unstack(batch["ids"]))) | {blocks.STAGED: batch["numbers"]}


def _history_features(batch):
    singles = {name: batch[name] for name in ("user", "item", "category")}
    items = tf.RaggedTensor.from_row_splits(batch["items"], batch["splits"], validate=False)
    lists = {"history_items": items, "history_categories": items.with_values(batch["categories"])}
    return singles | lists | {blocks.STAGED: tf.zeros([0])}


def prepare_gru(case: Case, batches: list[Batch], threads: int) -> Running:
    apply_threads(Setting(intra=threads, inter=threads))
    weights = [tf.constant(w) for w in cases.gru_weights(case)]
    count = case.batch * case.length  # N
    splits = tf.range(0, count + 1, case.length, tf.int64)

    @functools.partial(tf.function, autograph=False)
    def step(x, d_out, *attention):
        with tf.GradientTape() as tape:
            tape.watch([x, *weights, *attention])
            events = Events(splits, flat=x)
            outputs, _ = gru.fused(events, *weights, *(Events(splits, flat=a) for a in attention))
            out = outputs.flat
        return out, *tape.gradient(out, [x, *weights, *attention], output_gradients=d_out)

    def flat(batch: Batch) -> list[tf.Tensor]:
        wide = [tf.constant(batch[name].reshape(count, -1)) for name in ("x", "d_out")]
        return wide + ([tf.constant(batch["attention"].ravel())] if case.kind == "augru" else [])

    given = [flat(batch) for batch in batches]

    def outputs() -> dict[str, np.ndarray]:
        # Only the AUGRU's outputs: oneDNN's gradient does not belong to its forward pass (tests/ops/test_gru_onednn.py).
        kept = ("out", "d_x", "d_gates", "d_gates_bias", "d_candidate", "d_candidate_bias")[: None if case.kind == "gru" else 1]
        return {name: np.ravel(array) for name, array in zip(kept, step(*given[0]))}

    work = gru.OP.work(count, case.width, case.hidden, attended=case.kind == "augru")
    return _running(lambda i: step(*given[i]), outputs, work)


def _running(step, outputs, work: Work) -> Running:
    return Running(step=step, outputs=outputs, versions=f"ctrlab on TensorFlow {tf.__version__}", work=work.to_json())


if __name__ == "__main__":
    of_kind = {"lookup": prepare_lookup, "lookup_alone": prepare_lookup, "variable": prepare_variable}
    of_kind |= {"gru": prepare_gru, "augru": prepare_gru}
    serve_cases(of_kind | dict.fromkeys(("deepfm", "dlrm", "din"), prepare_model))

"""A small run with two embedding tables, trained by steps that are a function of their number, and all that it holds."""

import keras
import numpy as np
import tensorflow as tf
from histories import as_rows

from ctrlab.embedding import CounterFilter, Embedding, GlobalStepEviction, Options, embedding_variables
from ctrlab.training import Checkpoints, TouchedRows, restore

TABLES = {"item": Options(), "shop": Options(admission=CounterFilter(2), eviction=GlobalStepEviction(6))}


class Model(keras.Model):
    def __init__(self, tables, dim):
        super().__init__(name="small")
        self.embedding = Embedding(
            dim, columns={name: name for name in tables}, options=tables, combiner="rows", name="embedding"
        )
        self.dense = keras.layers.Dense(2, name="dense")
        self.dense.build([None, 3])

    def tables(self):
        return {table.name: table for table in embedding_variables(self)}


def new_run(tables=TABLES, dim=2, kind="adam_async"):
    model, optimizer = Model(tables, dim), TouchedRows(kind)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def train_to(run, step, checkpoints=None):
    """Steps until `step`, each on keys that are a function of it."""
    model, optimizer = run
    while (now := int(optimizer.iterations) + 1) <= step:
        draw = np.random.default_rng(now)
        keys = {name: tf.constant(draw.zipf(1.5, 12) % 1_000 - 3) for name in model.tables()}
        with tf.GradientTape() as tape:
            rows = model.embedding(keys, training=True)
            loss = tf.add_n([tf.reduce_sum(row**2) for row in rows.values()]) + tf.reduce_sum(model.dense.kernel) / now
            loss += tf.reduce_sum(model.dense.bias)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        if checkpoints:
            checkpoints(now, 0.0)


def content(run):
    """All that a run holds, to be compared."""
    model, optimizer = run
    weights = {v.path: v.numpy().tolist() for v in [*model.weights, *optimizer.variables]}
    return weights | {name: as_rows(table.state()) for name, table in model.tables().items()}


def saved(folder, steps, **options):
    """A run that was saved at each step, and its content after each."""
    run, contents = new_run(), {}
    with Checkpoints(folder, *run, every=1, **{"full_every": 4, "keep": 20, **options}) as checkpoints:
        for step in range(1, steps + 1):
            train_to(run, step, checkpoints)
            contents[step] = content(run)
    return contents


def restored(folder):
    run = new_run()
    return restore(folder, *run), content(run)

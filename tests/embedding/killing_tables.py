"""Kills a training with embedding tables, which saves a delta after every step and a full save after some, again and again; and
whose tables another thread evicts from meanwhile.

    python killing_tables.py FOLDER KILLS SEED

What is left must be the state of its step, bit for bit: that of a training which was never killed, and never saved.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "training"))

import keras
import killing
import numpy as np
import tensorflow as tf
from same_tables import require_same_table

from ctrlab.embedding import (
    CounterFilter,
    Embedding,
    GlobalStepEviction,
    L2Eviction,
    Options,
    Storage,
    embedding_variables,
)
from ctrlab.embedding.table import ops as table_ops
from ctrlab.training import Checkpoints, TouchedRows, restore

TABLES = {
    "item": Options(eviction=GlobalStepEviction(20)),  # in training, with most of its rows on the disk
    "shop": Options(admission=CounterFilter(3), eviction=GlobalStepEviction(10)),
    "user": Options(eviction=L2Eviction(0.15)),
}
KEYS, DIM, FULL_EVERY = 2_000, 16, 7


def new_run(storage=None):
    tables = TABLES | {"item": replace(TABLES["item"], storage=storage)}
    model = keras.Sequential([Embedding(DIM, {name: name for name in tables}, options=tables, name="tables")])
    optimizer = TouchedRows("adam_async")
    optimizer.build(model.trainable_variables)
    return model, optimizer


def become(run, step):
    """Trains from `step - 1` to `step`."""
    model, optimizer = run
    draw = np.random.default_rng(step)
    gradient = tf.constant(draw.standard_normal((KEYS, DIM)), tf.float32)
    updates = [(t, tf.IndexedSlices(gradient, tf.constant(draw.zipf(1.2, KEYS)))) for t in embedding_variables(model)]
    table_ops.step(optimizer.rule, updates, 0.01, step)
    optimizer.iterations.assign(step)


def train(folder, durable):
    """Saves every step; tells through the pipe `durable` which steps are on the disk for sure."""
    run = new_run(Storage(f"{folder}-storage", memory_rows=KEYS // 2))
    checkpoints = Checkpoints(folder, *run, every=1, full_every=FULL_EVERY, keep=2, resume=True)
    step = checkpoints.position
    os.write(durable, f"{step}\n".encode())
    with ThreadPoolExecutor(1) as thread:
        while True:
            step += 1
            become(run, step)
            others = thread.submit(beside, run, step)
            checkpoints(step, 0.0)
            others.result()
            os.write(durable, f"{step - 1}\n".encode())


def beside(run, step):
    """The work of others on the tables while step `step` is saved. The save evicts the same rows, whichever comes first."""
    for table in embedding_variables(run[0]):
        if table.options.eviction:
            table.evict(step)


def look(folder, at_least):
    """Exits with 0 where the last checkpoint is whole, of one step, and no older than what was durable."""
    run, expected = new_run(), new_run()
    found = restore(folder, *run)
    for step in range(1, found.step + 1):
        become(expected, step)
        for table in embedding_variables(expected[0]):
            if table.options.eviction:
                table.evict(step)
    for a, b in zip(embedding_variables(run[0]), embedding_variables(expected[0])):
        require_same_table(f"table {a.name}", a.state(), b.state())
    assert found.position == found.step >= at_least and not found.passed_over, found


if __name__ == "__main__":
    killing.main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), train, look)

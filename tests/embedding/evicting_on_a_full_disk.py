"""Evictions on a disk that is full or broken: they need no room, take what they take on any disk, and deltas restore the rest.

    python full_disk.py evicting_on_a_full_disk.py SEED [COUNT]

An eviction at step T takes the rows of steps before T - LIVE. Each save evicts, too, at the optimizer's step, far below that T.
"""

import random

import full_disk
import keras
import numpy as np
import tensorflow as tf
from filling_disk import require_sentence
from same_tables import require_same_table

from ctrlab.embedding import Embedding, GlobalStepEviction, Options, Storage, embedding_variables
from ctrlab.embedding.table_state import TableState
from ctrlab.errors import CtrlabError
from ctrlab.ops.refusals import one_sentence
from ctrlab.training import Checkpoints, TouchedRows, restore

ROWS, MEMORY_ROWS, DIM, LIVE, ROUNDS = 8_000, 500, 256, 1_000, 3


def run_of(storage=None):
    options = Options(storage=storage, eviction=GlobalStepEviction(LIVE))
    model = keras.Sequential([Embedding(DIM, {"item": "item"}, options=options, name="tables")])
    optimizer = TouchedRows("adagrad", 0.1)
    optimizer.build(model.trainable_variables)
    optimizer.iterations.assign(LIVE)
    return model, optimizer


def table_of(run):
    return embedding_variables(run[0])[0]


def fill(run, draw):
    """ROWS rows, last changed at steps up to LIVE."""
    values = draw.standard_normal((ROWS, DIM)).astype("f4")
    state = TableState(
        np.arange(ROWS),
        values,
        {"accumulator": values**2},
        draw.integers(1, 9, ROWS),
        draw.integers(1, LIVE + 1, ROWS),
    )
    table_of(run).load_state(state)


def step_of(run, step):
    """The step that makes `step` the last, on some keys, of which some are below, some went and some are new."""
    model, optimizer = run
    draw = np.random.default_rng(step)
    rows = tf.constant(draw.standard_normal((300, DIM)), tf.float32)
    keys = tf.constant(draw.integers(0, ROWS + 1_000, 300))
    with one_sentence():
        optimizer.apply([tf.IndexedSlices(rows, keys, tf.constant([0, DIM], tf.int64))], model.trainable_variables)


def train_until_refused(ours, twin, refusals):
    """Steps until the disk has no room for the rows that must sink; the last one."""
    for step in range(int(ours[1].iterations) + 1, 2 * LIVE):
        try:
            step_of(ours, step)
        except CtrlabError as refusal:
            require_sentence(f"step {step}", refusal)
            refusals.append(str(refusal))
            return step - 1
        step_of(twin, step)
    raise AssertionError("the disk was never full")


def require_restored(folder, expected, when):
    restored = run_of()
    found = restore(folder, *restored)
    assert not found.passed_over, f"DELTAS ARE WHOLE: {when}: {found.passed_over}"
    require_same_table(f"DELTAS ARE WHOLE: {when}: restored", table_of(restored).state(), expected)


def run(folder, disk, seed):
    rows, checkpoints, draw, refusals = folder / "rows", folder / "checkpoints", random.Random(seed), []
    ours, twin = run_of(Storage(str(rows), MEMORY_ROWS)), run_of()
    for each in (ours, twin):
        fill(each, np.random.default_rng(seed))
    with Checkpoints(checkpoints, *ours, keep=100, full_every=100, asynchronous=False) as saver:
        saver.save()
        for number in range(1, ROUNDS + 1):
            disk.fill_at_random(draw, rows, calls=6, room=3_000_000)
            step = train_until_refused(ours, twin, refusals)
            # The last one takes rows, too, that changed since the save before.
            until = LIVE + (step if number == ROUNDS else 200 * number + seed)
            gone = [table_of(each).evict(until) for each in (ours, twin)]
            assert gone[0] == gone[1] > 0, f"EVICTED: step {step}: {gone[0]} rows went, not {gone[1]}"
            require_same_table(f"EVICTED: step {step}", table_of(ours).state(), table_of(twin).state())
            disk.free()
            saver.save()
            table_of(twin).evict(step)
            require_restored(checkpoints, table_of(twin).state(), f"the save of step {step}")
    return f", {len(refusals)} refusals"


if __name__ == "__main__":
    full_disk.main(run)

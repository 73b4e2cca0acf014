"""Evictions of rows on a disk that refuses half-way: what the table then says it holds is what deltas restore, and no row of
those that stay is gone.

    python full_disk.py refused_evictions.py SEED [COUNT]

An eviction at step T takes the rows of steps before T - LIVE. Each save evicts, too, at the optimizer's step, which is far below
the T of those that are refused: so a delta can be taken of what a refused eviction left.
"""

import random

import full_disk
import keras
import numpy as np
import tensorflow as tf
from filling_disk import require_same_table, require_sentence

from ctrlab.embedding import Embedding, GlobalStepEviction, Options, Storage, embedding_variables
from ctrlab.embedding.state import TableState
from ctrlab.errors import CtrlabError
from ctrlab.training import Checkpoints, TouchedRows, restore

ROWS, MEMORY_ROWS, DIM, LIVE, ROUNDS, STEPS = 8_000, 500, 256, 1_000, 3, 4


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
    """A step on some keys, of which some are below, some went and some are new."""
    model, optimizer = run
    draw = np.random.default_rng(step)
    rows = tf.constant(draw.standard_normal((300, DIM)), tf.float32)
    keys = tf.constant(draw.integers(0, ROWS + 1_000, 300))
    optimizer.apply([tf.IndexedSlices(rows, keys, tf.constant([0, DIM], tf.int64))], model.trainable_variables)


def require_restored(folder, expected, when):
    restored = run_of()
    found = restore(folder, *restored)
    assert not found.passed_over, f"DELTAS ARE WHOLE: {when}: {found.passed_over}"
    require_same_table(f"DELTAS ARE WHOLE: {when}: restored", table_of(restored).state(), expected)


def run(folder, disk, seed):
    draw = random.Random(seed)
    rows, checkpoints = folder / "rows", folder / "checkpoints"
    ours, twin = run_of(Storage(str(rows), MEMORY_ROWS)), run_of()
    for each in (ours, twin):
        fill(each, np.random.default_rng(seed))
    table, expected, refused = table_of(ours), table_of(twin), 0
    with Checkpoints(checkpoints, *ours, keep=100, full_every=100, asynchronous=False) as saver:
        saver.save()
        for number in range(1, ROUNDS + 1):
            step = LIVE + number * STEPS
            for each in (ours, twin):
                for one in range(step - STEPS + 1, step + 1):
                    step_of(each, one)
            # The last one takes rows, too, that changed since the save before.
            until = LIVE + (step if number == ROUNDS else 200 * number)
            disk.fill_at_random(draw, rows, calls=3, room=2_000_000)
            for _ in range(draw.randrange(1, 3)):  # a second time with no room either
                refused += is_refused(table, until)
            disk.free()
            before, left = expected.state(), table.state()
            expected.evict(until)
            require_between(left, before, expected.state(), step)
            saver.save()
            expected.evict(step)
            require_restored(checkpoints, table.state(), f"the delta after the eviction of step {step} was refused")
            for each in (table, expected):
                each.evict(until)
            require_same_table(f"EVICTED IN THE END: step {step}", table.state(), expected.state())
    return f", {refused} evictions"


def is_refused(table, step) -> bool:
    try:
        table.evict(step)
        return False
    except CtrlabError as refusal:
        require_sentence(f"the eviction at step {step}", refusal)
        return True


def require_between(left, before, after, step):
    """Every row that stays is there, and none is that was not."""
    lost = np.setdiff1d(after.keys, left.keys).size
    more = np.setdiff1d(left.keys, before.keys).size
    assert not lost + more, f"NOTHING ELSE GOES: the refused eviction of step {step}: {lost} rows lost, {more} too many"


if __name__ == "__main__":
    full_disk.main(run)

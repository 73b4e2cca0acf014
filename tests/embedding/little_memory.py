"""Saves, restores, merges or cuts a table of several times the memory that this process may still take, and looks at the result.

    python little_memory.py FOLDER WHAT TIMES     make: without a limit, what the others read; save, restore, merge, deltas,
                                                  reshard. The table's rows are TIMES as large as the memory

A limit on the address space holds for every allocation, TensorFlow's and the engine's too. It is set once a small table has gone
the same way: by then all code is loaded and all threads run.
"""

import os
import resource
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

from ctrlab.embedding import Embedding, Initializer, Options, Storage, embedding_variables
from ctrlab.embedding.formats.resharding import merge_chain, merge_delta_files, reshard
from ctrlab.embedding.formats.saves import files_in
from ctrlab.embedding.table import ops as table_ops
from ctrlab.training import Checkpoints, TouchedRows, restore

DIM, SMALL = 1_024, 2_000
LEFT = 96 << 20
"""Bytes that may still be taken."""
AT_ONCE = 2_048


def new_run(folder):
    options = Options(Initializer("constant", 0.0), storage=Storage(str(folder), memory_rows=AT_ONCE))
    model = keras.Sequential([Embedding(DIM, {"item": "item"}, options=options, name="tables")])
    optimizer = TouchedRows("sgd")
    optimizer.build(model.trainable_variables)
    return model, optimizer


def become(run, step, rows):
    """Each step adds to some rows: first to all of them, then to others each time."""
    first, last = ((0, rows), (0, rows // 4), (rows // 8, rows // 2))[step - 1]
    (table,) = embedding_variables(run[0])
    for begin in range(first, last, AT_ONCE):
        keys = np.arange(begin, min(last, begin + AT_ONCE))
        gradient = np.broadcast_to((-(keys % 1_000) if step == 1 else -np.ones_like(keys))[:, None], (len(keys), DIM))
        slices = tf.IndexedSlices(tf.constant(gradient, tf.float32), tf.constant(keys))
        table_ops.step(run[1].rule, [(table, slices)], 1.0, step)
    run[1].iterations.assign(step)


def look(run, rows):
    (table,) = embedding_variables(run[0])
    assert table.stats().rows == rows, table.stats()
    for begin in range(0, rows, AT_ONCE):
        keys = np.arange(begin, min(rows, begin + AT_ONCE))
        expected = keys % 1_000 + (keys < rows // 4) + ((keys >= rows // 8) & (keys < rows // 2))
        assert (table.lookup(tf.constant(keys)).numpy() == expected[:, None]).all(), (begin, rows)


def make(folder, rows):
    run = new_run(folder / "making")
    with Checkpoints(folder / "run", *run, full_every=9) as checkpoints:
        for step in (1, 2, 3):
            become(run, step, rows)
            checkpoints.save()


def save(folder, rows):
    run = new_run(folder / "saving")
    for step in (1, 2, 3):
        become(run, step, rows)
    with Checkpoints(folder / "again", *run) as checkpoints:
        limit(rows)
        checkpoints.save()
    return "again"


def read(folder, rows):
    limit(rows)
    return "run"


def merge(folder, rows):
    limit(rows)
    merge_chain(folder / "run", folder / "merged")
    return "merged"


def deltas(folder, rows):
    limit(rows)
    files = files_in(folder / "run")
    merged = merge_delta_files([files[2], files[3]], folder / "deltas")
    os.link(files[1], merged.parent / files[1].name)
    return "deltas"


def cut(folder, rows):
    limit(rows)
    whole = merge_chain(folder / "run", folder / "to_cut")
    reshard(reshard([whole], 3, folder / "three"), 1, folder / "one")
    return "one"


WAYS = {"save": save, "restore": read, "merge": merge, "deltas": deltas, "reshard": cut}


def limit(rows):
    if rows != SMALL:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + LEFT
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main(folder, what, times):
    for rows in (SMALL, times * LEFT // (4 * DIM)):
        here = folder / str(rows)
        if what == "make":
            make(here, rows)
            continue
        of_result = WAYS[what](here, rows)
        run = new_run(here / "looking")
        assert restore(here / of_result, *run).step == 3
        look(run, rows)
    if what != "make":
        try:
            np.ones(LEFT, np.uint8)
        except MemoryError:
            return
        raise AssertionError("the limit does not hold")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))

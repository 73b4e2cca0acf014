"""Kills a training that saves without end, again and again, and looks what is left.

    python killing.py FOLDER KILLS SEED

Every number of the state is a function of its step, so a state that was put together from two is seen. Importing TensorFlow
takes seconds and a fork of a process that has not used it yet takes none: each training and each look is a child of its own.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

from ctrlab.training import TouchedRows
from ctrlab.training.checkpoint import Checkpoints
from ctrlab.training.generators import get_generators
from ctrlab.training.restoring import restore, state_variables

ROWS, DIM = 20_000, 16


def new_model():
    model = keras.Sequential([keras.layers.Input([1]), keras.layers.Embedding(ROWS, DIM, name="table")], name="model")
    optimizer = TouchedRows("adam_async")
    optimizer.build(model.trainable_variables)
    return model, optimizer


def become(model, optimizer, step):
    """The state of `step`."""
    for i, v in enumerate(state_variables(model, optimizer).values()):
        v.assign(tf.cast(tf.fill(v.shape, step + i), v.dtype))
    optimizer.iterations.assign(step)
    random.seed(step)
    np.random.seed(step)
    tf.random.get_global_generator().reset_from_seed(step)


def train(folder, durable):
    """Saves every step; tells through the pipe `durable` which steps are on the disk for sure."""
    model, optimizer = new_model()
    checkpoints = Checkpoints(folder, model, optimizer, every=1, keep=2, resume=True)
    step = checkpoints.position
    os.write(durable, f"{step}\n".encode())
    while True:
        step += 1
        become(model, optimizer, step)
        checkpoints(step, 0.0)
        os.write(durable, f"{step - 1}\n".encode())


def look(folder, at_least):
    """Exits with 0 where the last checkpoint is whole, of one step, and no older than what was durable."""
    model, optimizer = new_model()
    found = restore(folder, model, optimizer)
    expected, wanted = new_model()
    become(expected, wanted, found.step)
    for a, b in zip(state_variables(model, optimizer).values(), state_variables(expected, wanted).values()):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    here = get_generators()
    become(expected, wanted, found.step)
    for name, value in get_generators().items():
        np.testing.assert_array_equal(here[name], value)
    assert found.position == found.step >= at_least and not found.passed_over, found


def in_a_child(work):
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException as error:
        print(type(error).__name__, error, file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def main(folder, kills, seed, train=train, look=look):
    draw = random.Random(seed)
    partial = durable = 0
    for kill in range(kills):
        reader, writer = os.pipe()
        pid = in_a_child(lambda writer=writer: train(folder, writer))
        os.close(writer)
        told = b""
        for _ in range(1 if kill and draw.random() < 0.2 else 3):  # some are killed before they have saved anything
            told += os.read(reader, 1 << 16)
        time.sleep(draw.uniform(0.0, 0.15))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        while piece := os.read(reader, 1 << 16):
            told += piece
        os.close(reader)
        partial += bool(list(Path(folder).glob(".*.part")))
        durable = int(told.split()[-1])
        _, status = os.waitpid(in_a_child(lambda at_least=durable: look(folder, at_least)), 0)
        if status:
            sys.exit(f"kill {kill}: the checkpoint of step {durable} or later is not there")
    print(f"survived {kills} kills, {partial} of them in the middle of a file, {durable} steps")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

"""An embedding variable made of the NumPy reference, as far as checkpoints know one, and a run of a model that has two."""

import threading

import keras
import numpy as np
from histories import DIM, as_rows, new_table

from ctrlab.embedding.options import CounterFilter, GlobalStepEviction
from ctrlab.embedding.reference import Candidate, Row
from ctrlab.training import TouchedRows


class FakeVariable:
    def __init__(self, name, admission=None, eviction=None):
        self.name, self.table, self.gate = name, new_table(admission, eviction), threading.RLock()
        self.dim, self.slot_names, self.filter_bytes = DIM, ("m", "v"), 0
        self.options = self.table.options

    def update(self, keys, step):
        with self.gate:
            self.table.update(np.array(keys, np.int64), np.full((len(keys), DIM), 1 / step), learning_rate=0.1, step=step)
            for row in self.table.rows.values():  # a file holds float32
                for array in (row.value, *row.slots.values()):
                    array[...] = array.astype(np.float32)

    def evict(self, step):
        with self.gate:
            self.table.evict(step)

    def state(self, save=False):
        with self.gate:
            if save:
                self.table.changed()
            return self.table.state()

    def changed(self):
        with self.gate:
            return self.table.changed()

    def load_state(self, state):
        slots = state.slots or {name: np.zeros_like(state.values) for name in self.slot_names}
        with self.gate:
            self.table.rows = {
                key: Row(np.array(state.values[i], float), {n: np.array(s[i], float) for n, s in slots.items()}, *numbers)
                for i, (key, *numbers) in enumerate(zip(*(a.tolist() for a in (state.keys, state.frequencies, state.steps))))
            }
            waiting = zip(*(a.tolist() for a in (state.candidate_keys, state.candidate_counts, state.candidate_steps)))
            self.table.candidates = {key: Candidate(*numbers) for key, *numbers in waiting}
            self.table.touched, self.table.removed = set(), set()


def new_run():
    """A small model with two tables, one that admits and evicts, and its optimizer."""
    model = keras.Sequential([keras.layers.Input([3]), keras.layers.Dense(2, name="dense")], name="small")
    model.embedding_variables = [FakeVariable("item"), FakeVariable("shop", CounterFilter(2), GlobalStepEviction(6))]
    optimizer = TouchedRows("adagrad")
    optimizer.build(model.trainable_variables)
    return model, optimizer


def train_to(run, step, checkpoints=None):
    """Steps until `step`, each on keys that are a function of it."""
    model, optimizer = run
    while (now := int(optimizer.iterations)) < step:
        now += 1
        optimizer.iterations.assign(now)
        draw = np.random.default_rng(now)
        for variable in model.embedding_variables:
            variable.update(draw.zipf(1.5, 12) % 1_000, now)
        for v in model.trainable_variables:
            v.assign(v * 0 + now)
        if checkpoints:
            checkpoints(now, 0.0)


def content(run):
    """All that a run holds, to be compared."""
    model, optimizer = run
    weights = {v.path: v.numpy().tolist() for v in [*model.weights, *optimizer.variables]}
    return weights | {v.name: as_rows(v.state()) for v in model.embedding_variables}

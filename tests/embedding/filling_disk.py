"""Trains tables on a disk that fills up at random moments and has room again later; saves a delta after every step.

    python full_disk.py filling_disk.py SEED [COUNT]

What must hold: a refusal is one sentence and changes nothing; the same batch goes through once there is room; every save that was
said to be on the disk restores to its step; and all that the run holds is, bit for bit, what a run on no disk at all holds.
"""

import random
import re

import full_disk
import numpy as np
import tensorflow as tf
from runs_with_tables import new_run
from same_tables import require_same_table

from ctrlab.embedding import CounterFilter, GlobalStepEviction, L2Eviction, Options, Storage
from ctrlab.errors import CtrlabError
from ctrlab.ops.refusals import one_sentence
from ctrlab.training import Checkpoints, restore

STEPS, KEYS, MOST_KEY, MEMORY_ROWS = 24, 600, 6_000, 640
DIM, WIDE, WIDE_ONE_OF, WIDE_EVERY = 128, 1_024, 10, 8
"""One seed of ten has rows so wide that a table fills files of the store, which are then compacted; it saves less often."""
ADMISSIONS_AND_EVICTIONS = {
    "item": {"eviction": GlobalStepEviction(9)},
    "shop": {"admission": CounterFilter(2), "eviction": GlobalStepEviction(6)},
    "user": {"eviction": L2Eviction(0.02)},
}
STORED = (("item", "shop"), ("item",), ("shop",))
"""Tables with storage, by seed: a step that one refuses must find the others as they were, whichever comes first."""
ATTEMPTS = 4
"""Times that the same thing may be refused: what a full disk did is noticed by a later call, and by several of them."""


def run_of(dim, storage=None, stored=()):
    tables = {
        name: Options(storage=storage if name in stored else None, **rest) for name, rest in ADMISSIONS_AND_EVICTIONS.items()
    }
    model, optimizer = new_run(tables, dim)
    model.dense.set_weights([np.ones(variable.shape) for variable in model.dense.weights])
    return model, optimizer


def step_of(run, step):
    """The step that makes `step` the last."""
    model, optimizer = run
    draw = np.random.default_rng(step)
    keys = {name: tf.constant(draw.integers(0, MOST_KEY, KEYS) ** 2 // MOST_KEY) for name in model.tables()}
    with tf.GradientTape() as tape:
        rows = model.embedding(keys, training=True)
        loss = tf.add_n([tf.reduce_sum(tf.sin(row)) for row in rows.values()]) + tf.reduce_sum(model.dense.kernel) / step
        loss += tf.reduce_sum(model.dense.bias)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)


def evict(run, step):
    for table in run[0].tables().values():
        table.evict(step)


class Training:
    """One run on the disk, and its twin on none. What is raised begins with the promise that was broken."""

    def __init__(self, folder, disk, seed):
        self.disk, self.draw = disk, random.Random(seed)
        self.folder, self.rows, self.checkpoints = folder, folder / "rows", folder / "checkpoints"
        self.dim, self.every = (DIM, 1) if (seed + 1) % WIDE_ONE_OF else (WIDE, WIDE_EVERY)
        self.run, self.twin = run_of(self.dim, Storage(str(self.rows), MEMORY_ROWS), STORED[seed % 3]), run_of(self.dim)
        self.asynchronous = bool(seed % 2)
        self.saved = self.last = 0  # the last step of which was said that it is on the disk, and the last that was saved
        self.refusals = []

    def train(self):
        options = {"every": self.every, "full_every": 5, "keep": 3, "asynchronous": self.asynchronous}
        with Checkpoints(self.checkpoints, *self.run, **options) as checkpoints:
            for step in range(1, STEPS + 1):
                self.something_happens_to_the_disk()
                self.until_taken(f"step {step}", lambda step=step: step_of(self.run, step), self.require_unchanged)
                step_of(self.twin, step)
                if step % self.every == 0:
                    self.require_same(f"step {step}")
                self.save(checkpoints, step)
            self.disk.free()
            self.until_taken("the last save", checkpoints.save_last)
            self.require_restores(STEPS)

    def something_happens_to_the_disk(self):
        if self.disk.full and self.draw.random() < 0.3:
            self.disk.free()
        elif not self.disk.full and self.draw.random() < 0.6:
            below = self.draw.choice([self.folder, self.rows, self.rows, self.checkpoints])
            self.disk.fill_at_random(self.draw, below, calls=6 if below == self.rows else 60, room=3_000_000)

    def save(self, checkpoints, step):
        before = len(self.refusals)
        self.until_taken(f"save {step}", self.once(lambda: checkpoints(step, 0.0), checkpoints.save_last))
        refused = len(self.refusals) > before
        if not refused and step % self.every:
            return
        evict(self.twin, step)
        # `save_last` waits. Else the call says that the save before is on the disk, or this one where there is no thread.
        self.saved, self.last = (step if refused or not self.asynchronous else self.last), step
        if refused:
            self.require_same(f"save {step}, which was refused first")
        if refused or step % (4 * self.every) == 0:
            self.require_restores(self.saved)

    @staticmethod
    def once(first, then):
        """`first` the first time, `then` after that: a save that was refused isn't written by another step's."""
        calls = iter([first])
        return lambda: next(calls, then)()

    def until_taken(self, what, work, look=lambda what: None):
        """Does it again, with room on the disk, after a refusal; what is there then must be as it was before."""
        for _ in range(ATTEMPTS):
            try:
                with one_sentence():
                    return work()
            except (CtrlabError, OSError) as refusal:
                self.disk.free()
                self.refusals.append(str(refusal))
                require_sentence(what, refusal)
                look(what)
        raise AssertionError(f"TRAINING GOES ON: {what} is refused with room on the disk: {self.refusals[-1]}")

    def require_unchanged(self, what):
        self.require_same(f"the refusal of {what}")

    def require_same(self, when):
        self.until_taken(f"looking at the tables after {when}", lambda: require_same_run(when, self.run, self.twin))

    def require_restores(self, least):
        """The folder's last save is of the last step that was said to be on the disk or of a later one, and whole."""
        if not least:
            return
        restored = run_of(self.dim)
        found = restore(self.checkpoints, *restored)
        assert found.step >= least, f"SAVED IS SAVED: step {least} was on the disk, and {found.step} is restored"
        assert not found.passed_over, f"SAVED IS SAVED: {found.passed_over}"
        if found.step == int(self.twin[1].iterations):
            require_same_run(f"RESTORED: the save of step {found.step}", restored, self.twin)


def require_sentence(what, refusal):
    words = str(refusal)
    assert isinstance(refusal, CtrlabError), f"ONE SENTENCE: {what} raised {type(refusal).__name__}: {words}"
    assert re.fullmatch(r"[A-Z][^\n]*[.!]", words) and "[Op:" not in words, f"ONE SENTENCE: {what} said: {words!r}"


def require_same_run(when, ours, theirs):
    """Bit for bit, whatever the order of keys in the tables."""
    weights = [{v.path: v.numpy() for v in [*model.weights, *optimizer.variables]} for model, optimizer in (ours, theirs)]
    for name, expected in weights[1].items():
        found = weights[0][name]
        assert np.array_equal(found, expected), f"NOTHING HALF APPLIED: {when}: {name} is {found}, not {expected}"
    for name, table in ours[0].tables().items():
        require_same_table(f"NOTHING LOST OR TWICE: {when}: table {name}", table.state(), theirs[0].tables()[name].state())


def run(folder, disk, seed):
    training = Training(folder, disk, seed)
    training.train()
    return f", {len(training.refusals)} refusals"


if __name__ == "__main__":
    full_disk.main(run)

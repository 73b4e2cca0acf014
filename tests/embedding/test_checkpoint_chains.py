"""A run with embedding tables goes on from a full save and its deltas, whatever could not be written on the way."""

import errno
import itertools
import json
import os
import threading
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from runs_with_tables import content, new_run, restored, saved, train_to

from ctrlab.embedding import Initializer, Options, lookup
from ctrlab.embedding.checkpoint import from_arrays
from ctrlab.tensors import read_metadata, read_tensors
from ctrlab.training import CheckpointError, Checkpoints
from ctrlab.training.saves import POINTER, Save, files_in


def kinds(folder):
    return {step: ".delta" in path.name for step, path in files_in(folder).items()}


@pytest.mark.parametrize("asynchronous", [True, False])
def test_each_save_is_the_state_of_its_step(tmp_path, asynchronous):
    contents = saved(tmp_path, 9, asynchronous=asynchronous)
    assert kinds(tmp_path) == {step: step not in (1, 5, 9) for step in range(1, 10)}
    for step, path in files_in(tmp_path).items():
        (tmp_path / POINTER).write_text(json.dumps({"file": path.name}))
        found, there = restored(tmp_path)
        assert found.step == step and not found.passed_over and there == contents[step]


def test_a_delta_is_smaller_and_names_what_it_follows(tmp_path):
    saved(tmp_path, 9)
    files = files_in(tmp_path)
    notes = [Save.from_metadata(read_metadata(path), path) for path in files.values()]
    assert [note.number for note in notes] == [0, 1, 2, 3, 0, 1, 2, 3, 0]
    assert all(
        b.previous == (a.id if b.number else "") and b.base == (a.base if b.number else b.id)
        for a, b in itertools.pairwise(notes)
    )
    rows = {step: len(read_tensors(path)[0]["embedding/item/keys"]) for step, path in files.items()}
    assert max(rows[step] for step in (6, 7, 8)) <= 12 < rows[5] < rows[9]


def test_a_run_goes_on_in_its_chain(tmp_path):
    contents = saved(tmp_path, 9)
    run = new_run()
    (tmp_path / POINTER).write_text(json.dumps({"file": files_in(tmp_path)[6].name}))
    with Checkpoints(tmp_path, *run, every=1, full_every=4, keep=20, resume=True) as checkpoints:
        assert checkpoints.position == 6 and content(run) == contents[6]
        train_to(run, 9, checkpoints)
    assert content(run) == contents[9] and restored(tmp_path)[1] == contents[9]
    assert kinds(tmp_path) == {step: step not in (1, 5, 9) for step in range(1, 10)}


def test_a_chain_goes_when_a_newer_full_save_is_whole(tmp_path, monkeypatch):
    saved(tmp_path, 4, keep=1)
    assert list(files_in(tmp_path)) == [1, 2, 3, 4]
    run = new_run()
    with Checkpoints(tmp_path, *run, every=1, full_every=4, keep=1, resume=True) as checkpoints:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full_disk)
            train_to(run, 5, checkpoints)
            checkpoints._writing.exception()
        assert list(files_in(tmp_path)) == [1, 2, 3, 4]
        with pytest.raises(CheckpointError, match="No space left"):
            train_to(run, 6, checkpoints)
        checkpoints.advance(1)
        checkpoints.wait()
    assert list(files_in(tmp_path)) == [6]


def test_the_newest_keep_what_they_build_on(tmp_path):
    saved(tmp_path, 10, keep=3)
    assert list(files_in(tmp_path)) == [5, 6, 7, 8, 9, 10]
    assert len(list(tmp_path.iterdir())) == 7


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_a_failed_delta_held_is_in_the_next_save(tmp_path, monkeypatch):
    run = new_run()
    with Checkpoints(tmp_path, *run, every=2, full_every=100) as checkpoints:
        train_to(run, 3, checkpoints)
        checkpoints.wait()
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full_disk)
            train_to(run, 4, checkpoints)  # its delta is lost, and the marks of what it held are gone
            checkpoints._writing.exception()
        with pytest.raises(CheckpointError, match="step 4 could not be written"):
            train_to(run, 5, checkpoints)
        train_to(run, 6, checkpoints)
    assert kinds(tmp_path) == {2: False, 6: False}
    assert restored(tmp_path)[1] == content(run)


def test_what_a_table_could_not_copy_is_in_the_next_save(tmp_path, monkeypatch):
    run = new_run()
    second = run[0].tables()["shop"]
    with Checkpoints(tmp_path, *run, full_every=100) as checkpoints:
        train_to(run, 1)
        checkpoints.save()
        train_to(run, 2)
        with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
            patch.setattr(second, "changed", lambda: 1 / 0)
            checkpoints.save()
        checkpoints.save()
    assert restored(tmp_path)[1] == content(run)


def test_twice_at_one_step(tmp_path):
    """A delta that follows a save of its own step would be written over it."""
    run = new_run()
    with Checkpoints(tmp_path, *run, full_every=100) as checkpoints:
        for step in (1, 2, 2, 3):
            train_to(run, step)
            checkpoints.save()
    assert restored(tmp_path)[1] == content(run) and kinds(tmp_path) == {1: False, 2: False, 3: True}


def by_another_saver(run, folder):
    with Checkpoints(folder / "other", *run) as other:
        other.save()


def by_a_load(run, folder):
    item = run[0].tables()["item"]
    item.load_state(replace(item.state(), steps=item.state().steps * 0))


@pytest.mark.parametrize("moved", [by_another_saver, by_a_load])
def test_a_delta_refers_to_our_own_save(tmp_path, moved):
    run = new_run()
    with Checkpoints(tmp_path, *run, full_every=100) as checkpoints:
        for step in range(1, 5):
            train_to(run, step)
            if step == 3:
                moved(run, tmp_path)
            checkpoints.save()
    assert kinds(tmp_path) == {1: False, 2: True, 3: False, 4: True}
    assert restored(tmp_path)[1] == content(run)


def test_a_save_is_of_one_moment_while_another_thread_writes(tmp_path):
    """Values and slots taken at different times: every step gives all rows the same numbers, so a mix is seen."""
    run = new_run({"item": Options(Initializer("constant", 0.5))}, dim=8)
    item, rule, done = run[0].tables()["item"], run[1].rule, threading.Event()
    gradient = tf.IndexedSlices(tf.ones([2_000, 8]), tf.range(2_000, dtype=tf.int64))

    def write():
        for step in itertools.count(1):
            lookup.step(rule, [(item, gradient)], 0.1, step)
            if done.is_set():
                return

    writer = threading.Thread(target=write)
    with Checkpoints(tmp_path, *run, full_every=3, keep=99) as checkpoints:
        writer.start()
        try:
            for step in range(1, 31):
                run[1].iterations.assign(step)
                checkpoints.save()
        finally:
            done.set()
            writer.join()
    seen = set()
    for path in files_in(tmp_path).values():
        state = from_arrays(read_tensors(path)[0], "")["item"]
        if len(state.keys):  # a delta between two steps has none
            assert len(state.keys) == 2_000 and len(set(state.steps.tolist())) == 1
            assert (state.frequencies == state.steps).all()
            for array in (state.values, *state.slots.values()):
                assert len(np.unique(array)) == 1
            seen.add(int(state.steps[0]))
    assert len(seen) > 3

"""A run with embedding tables goes on from a full save and its deltas, whatever could not be written on the way."""

import errno
import itertools
import json
import os
import threading
import weakref
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from histories import as_rows
from runs_with_tables import content, new_run, restored, saved, train_to

from ctrlab.embedding import EmbeddingVariable, Initializer, Options, TableState
from ctrlab.embedding.formats.saves import POINTER, Save, files_in
from ctrlab.embedding.formats.table_arrays import apply_delta, from_arrays
from ctrlab.embedding.formats.tensor_file import read_metadata, read_tensors
from ctrlab.embedding.table import ops as table_ops
from ctrlab.embedding.table.cut import Cut
from ctrlab.training import CheckpointError, Checkpoints, restore


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


@pytest.mark.parametrize("lost", [1, 2, 3, "replaced"])
def test_a_save_follows_no_chain_that_was_deleted(tmp_path, lost):
    """Nor one in which a file was replaced by another save of the same step."""
    run = new_run()
    with Checkpoints(tmp_path / "run", *run, every=1, full_every=10, keep=20) as checkpoints:
        train_to(run, 3, checkpoints)
        checkpoints.wait()
        files = files_in(tmp_path / "run")
        if lost == "replaced":
            saved(tmp_path / "other", 2, full_every=10)
            files[2].write_bytes(files_in(tmp_path / "other")[2].read_bytes())
        else:
            files[lost].unlink()
        train_to(run, 5, checkpoints)
    assert {step: kind for step, kind in kinds(tmp_path / "run").items() if step > 3} == {4: False, 5: True}
    found, there = restored(tmp_path / "run")
    assert found.step == 5 and not found.passed_over and there == content(run)


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
            train_to(run, 4, checkpoints)
            checkpoints._writing.exception()
        with pytest.raises(CheckpointError, match="step 4 could not be written"):
            train_to(run, 5, checkpoints)
        train_to(run, 6, checkpoints)
    assert kinds(tmp_path) == {2: False, 6: True}
    assert restored(tmp_path)[1] == content(run)


def test_what_a_table_could_not_copy_is_in_the_next_save(tmp_path, monkeypatch):
    run = new_run()
    second = run[0].tables()["shop"]
    with Checkpoints(tmp_path, *run, full_every=100) as checkpoints:
        train_to(run, 1)
        checkpoints.save()
        train_to(run, 2)
        with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
            patch.setattr(second, "cut", lambda consumer: 1 / 0)
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


def by_a_load(item):
    item.load_state(replace(item.state(), steps=item.state().steps * 0))


def by_a_swap(item):
    stage = item.stage()
    stage.load_state(replace(item.state(), steps=item.state().steps * 0), how="more")
    item.adopt(stage)


def by_other_slots(item):
    item.set_slots({"accumulator": 0.5})


def by_too_many_changes(item):
    """More than the table's log of changes holds: 70,000 rows go, others come."""
    for base in (0, 70_000):
        keys = np.arange(base, base + 70_000) + 10_000
        rows = np.zeros((len(keys), 2), np.float32)
        slots, one = {name: rows for name in item.slot_names}, np.ones_like(keys)
        item.load_state(TableState(keys, rows, slots, one, one, removed=keys - 70_000), how="changes")


@pytest.mark.parametrize("moved", [by_a_load, by_a_swap, by_other_slots, by_too_many_changes])
def test_a_table_that_forgot_what_changed_is_saved_whole(tmp_path, moved):
    run = new_run()
    item = run[0].tables()["item"]
    with Checkpoints(tmp_path, *run, full_every=100) as checkpoints:
        for step in range(1, 5):
            train_to(run, step) if moved is not by_other_slots else run[1].iterations.assign(step)
            if step == 3:
                moved(item)
            checkpoints.save()
    assert kinds(tmp_path) == {1: False, 2: True, 3: False, 4: True}
    again = new_run()
    if moved is by_other_slots:
        moved(again[0].tables()["item"])
    found = restore(tmp_path, *again)
    assert found.step == 4 and not found.passed_over and content(again) == content(run)


def test_a_table_that_forgot_what_changed_is_copied_once_at_a_time(tmp_path, monkeypatch):
    run, held, take = new_run(), weakref.WeakSet(), EmbeddingVariable.cut

    def cut(table, consumer):
        assert table.name not in {one.of for one in held}
        one = take(table, consumer)
        one.of = table.name
        held.add(one)
        return one

    monkeypatch.setattr(EmbeddingVariable, "cut", cut)
    with Checkpoints(tmp_path, *run, full_every=100, asynchronous=False) as checkpoints:
        for step in (1, 2):
            train_to(run, step)
            checkpoints.save()
            by_a_load(run[0].tables()["item"])
    assert kinds(tmp_path) == {1: False, 2: False}


def test_two_savers_do_not_disturb_each_other(tmp_path):
    """Both write deltas of the same tables, each of what changed since its own last save; so does a reader of the table's own."""
    run = new_run()
    tables = run[0].tables()
    copies = dict.fromkeys(tables)

    def follow():
        for name, table in tables.items():
            cut = table.cut("server")
            for number, part in enumerate(cut.parts(rows=5)):
                here = copies[name] if cut.since is not None or number else part
                copies[name] = here if here is part else apply_delta(here, part)
            table.confirm("server", cut.version)

    a, b = (Checkpoints(tmp_path / name, *run, full_every=100, keep=99) for name in "ab")
    with a, b:
        for step in range(1, 13):
            train_to(run, step)
            a.save()
            if step % 3 == 0:
                follow()
            if step % 4 == 0:
                b.save()
    assert kinds(tmp_path / "a") == {step: step > 1 for step in range(1, 13)}
    assert kinds(tmp_path / "b") == {4: False, 8: True, 12: True}
    for folder in "ab":
        assert restored(tmp_path / folder)[1] == content(run)
    for name, table in tables.items():
        assert as_rows(copies[name]) == as_rows(table.state())


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_save_that_contradicts_itself_is_not_written(tmp_path, monkeypatch, asynchronous):
    """A table that gives a key twice, as one did whose eviction had failed half way."""
    run, parts = new_run(), Cut.parts

    def twice(cut, rows=65_536):
        for part in parts(cut, rows):
            yield replace(part, keys=np.full_like(part.keys, 7))

    with Checkpoints(tmp_path, *run, full_every=100, asynchronous=asynchronous) as checkpoints:
        for step in (1, 2, 3):
            train_to(run, step)
            with monkeypatch.context() as patch:
                if step == 2:
                    patch.setattr(Cut, "parts", twice)
                    with pytest.raises(CheckpointError, match=r"could not be written .*Table item"):
                        checkpoints.save()
                        checkpoints.wait()
                    assert list(files_in(tmp_path)) == [1] and len(list(tmp_path.iterdir())) == 2
                else:
                    checkpoints.save()
                    checkpoints.wait()
    assert kinds(tmp_path) == {1: False, 3: False} and restored(tmp_path)[1] == content(run)


def test_a_save_is_of_one_moment_while_another_thread_writes(tmp_path):
    """Values and slots taken at different times: every step gives all rows the same numbers, so a mix is seen."""
    run = new_run({"item": Options(Initializer("constant", 0.5))}, dim=8)
    item, rule, done = run[0].tables()["item"], run[1].rule, threading.Event()
    gradient = tf.IndexedSlices(tf.ones([2_000, 8]), tf.range(2_000, dtype=tf.int64))

    def write():
        for step in itertools.count(1):
            table_ops.step(rule, [(item, gradient)], 0.1, step)
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

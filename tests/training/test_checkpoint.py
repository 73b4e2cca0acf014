"""A run that is taken up again goes on as if nothing had happened; what the disk lost is told in one sentence."""

import json
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from small_runs import small_model, small_run, steps

from ctrlab import data
from ctrlab.embedding.formats import saves
from ctrlab.embedding.formats.saves import POINTER, files_in
from ctrlab.errors import BadData, CtrlabError
from ctrlab.models import build
from ctrlab.training import compile_model, make_optimizer, train, train_step
from ctrlab.training.checkpoint import CheckpointError, Checkpoints
from ctrlab.training.generators import get_generators
from ctrlab.training.restoring import restore, state_variables
from ctrlab.training.state import get_state

KILLING = Path(__file__).with_name("killing.py")
BATCH = {"batch_size": 16, "shuffle": 50, "seed": 5, "epochs": -1}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    schema = data.schema("amazon_reviews").with_buckets(300)
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    data.write(list(data.generate(schema.name, rows=200, seed=3)), schema, path, "parquet", progress=False)
    return schema, path


def new_run(schema, seed=1):
    model = build("din", schema, "none", seed)
    optimizer = make_optimizer(model)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def state(model, optimizer):
    return {name: v.numpy().tobytes() for name, v in state_variables(model, optimizer).items()}


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_run_goes_on_bit_for_bit(rows, tmp_path, asynchronous):
    schema, path = rows
    whole, cut = new_run(schema), new_run(schema)
    train(*whole, data.read(path, schema, **BATCH), steps=7)
    with Checkpoints(tmp_path, *cut, every=2, asynchronous=asynchronous) as checkpoints:
        train(*cut, data.read(path, schema, **BATCH), steps=5, on_step=checkpoints)  # saved after 2 and 4, then cut off
    resumed = new_run(schema, seed=2)
    with Checkpoints(tmp_path, *resumed, resume=True) as checkpoints:
        assert (checkpoints.restored.step, checkpoints.position) == (4, 4)
        rest = data.read(path, schema, start=checkpoints.position, **BATCH)
        train(*resumed, rest, steps=3, on_step=checkpoints)
        assert checkpoints.position == 7
    assert state(*resumed) == state(*whole)


def test_later_steps_do_not_reach_a_snapshot(rows, tmp_path, monkeypatch):
    schema, path = rows
    model, optimizer = new_run(schema)
    batches = list(data.read(path, schema, **BATCH).take(4))
    step = train_step(model, optimizer)
    train(model, optimizer, batches[:2], step=step)
    before, written = state(model, optimizer), threading.Event()
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (written.wait(60), fsync(file)))
    with Checkpoints(tmp_path, model, optimizer) as checkpoints:
        checkpoints.save()
        train(model, optimizer, batches[2:], step=step)
        assert state(model, optimizer) != before and not files_in(tmp_path)
        written.set()
    restore(tmp_path, model, optimizer)
    assert state(model, optimizer) == before


def test_seeds_and_generators_come_back(tmp_path):
    model, optimizer = small_run()
    model(tf.ones([4, 3]), training=True)
    random.seed(3)
    random.gauss(0, 1)
    np.random.seed(4)
    np.random.standard_normal()

    def draw():
        drawn = [random.gauss(0, 1), random.random(), np.random.standard_normal(), np.random.random()]
        return [
            *drawn,
            *tf.random.get_global_generator().normal([2]).numpy(),
            *model.layers[0](tf.ones([1, 64]), training=True).numpy()[0],
        ]

    with Checkpoints(tmp_path, model, optimizer) as checkpoints:
        checkpoints.save()
    expected = draw()
    assert draw() != expected
    restore(tmp_path, model, optimizer)
    assert draw() == expected


@pytest.mark.parametrize(
    "odd", [{"tensorflow": np.zeros(2, np.int64)}, {"numpy": np.zeros(3, np.uint32)}, {"python": np.zeros(3, np.uint32)}]
)
def test_generators_of_another_kind_change_nothing(tmp_path, monkeypatch, odd):
    monkeypatch.setattr("ctrlab.training.checkpoint.get_generators", lambda: get_generators() | odd)
    with Checkpoints(tmp_path, *small_run(1.0)) as checkpoints:
        checkpoints.save()
    model, optimizer = small_run()
    before, drawn = get_state(model, optimizer), get_generators()
    with pytest.raises(BadData, match="generators is not one that this version knows"):
        restore(tmp_path, model, optimizer)
    np.testing.assert_equal((get_state(model, optimizer), get_generators()), (before, drawn))


def test_the_newest_are_kept_and_the_pointer_moves(tmp_path):
    with Checkpoints(tmp_path, *small_run(), every=3, keep=2) as checkpoints:
        steps(checkpoints, 13)
    assert sorted(files_in(tmp_path)) == [9, 12]
    assert json.loads((tmp_path / POINTER).read_text()) == {
        "file": "step-000000012.safetensors",
        "step": 12,
        "position": 12,
    }
    assert {p.name for p in tmp_path.iterdir()} == {POINTER, "step-000000009.safetensors", "step-000000012.safetensors"}


def test_one_named_thread_that_ends(tmp_path):
    def ours():
        return [t.name for t in threading.enumerate() if t.name.startswith("ctrlab-checkpoint")]

    with Checkpoints(tmp_path, *small_run(), every=1) as checkpoints:
        steps(checkpoints, 5)
        assert len(ours()) == 1
    assert ours() == []


def test_a_folder_belongs_to_one_run(tmp_path):
    with Checkpoints(tmp_path, *small_run(), every=1, run={"seed": "1"}) as checkpoints:
        steps(checkpoints, 1)
    with pytest.raises(CheckpointError, match="earlier run, up to step 1; resume it"):
        Checkpoints(tmp_path, *small_run())
    with pytest.raises(CtrlabError, match=r"the same seed; .* has 1, now it is 2"):
        Checkpoints(tmp_path, *small_run(), resume=True, run={"seed": "2"})
    assert Checkpoints(tmp_path / "new", *small_run(), resume=True).restored is None
    for path in files_in(tmp_path).values():
        path.unlink()
    with pytest.raises(CheckpointError, match=r"latest\.json names one, and no checkpoint is in the folder: put the files back"):
        Checkpoints(tmp_path, *small_run(), resume=True)


def test_a_folder_takes_one_run_at_a_time(tmp_path):
    with Checkpoints(tmp_path, *small_run(1.0)) as checkpoints:
        (tmp_path / f".{POINTER}.1.part").write_text("the first is just writing this")
        for resume in (True, False):
            with pytest.raises(
                CtrlabError,
                match=f"^One run, merge or export at a time writes into a folder; {tmp_path} is in use: .* name another",
            ):
                Checkpoints(tmp_path, *small_run(), resume=resume)
        of_ours = "from ctrlab.embedding.formats.folder_lock import FolderLock"
        other = f"import pathlib, sys; {of_ours}; FolderLock(pathlib.Path(sys.argv[1]))"
        ran = subprocess.run([sys.executable, "-c", other, tmp_path], capture_output=True, text=True, check=False)
        assert ran.returncode == 1 and "is in use" in ran.stderr
        assert (tmp_path / f".{POINTER}.1.part").exists()
        checkpoints.save()
    with pytest.raises(CheckpointError, match="holds checkpoints of an earlier run"):
        Checkpoints(tmp_path, *small_run())
    with Checkpoints(tmp_path, *small_run(), resume=True) as checkpoints:  # what was refused holds nothing
        assert (
            checkpoints.restored is not None and subprocess.run([sys.executable, "-c", other, tmp_path], check=False).returncode
        )
    assert subprocess.run([sys.executable, "-c", other, tmp_path], check=False).returncode == 0


def test_a_checkpoint_of_another_model_changes_nothing(tmp_path, rows):
    with Checkpoints(tmp_path, *small_run()) as checkpoints:
        checkpoints.save()
    other = new_run(rows[0])
    before = state(*other)
    with pytest.raises(CtrlabError, match="is of another model"):
        restore(tmp_path, *other)
    with pytest.raises(CtrlabError, match=r"small/dense/kernel is float32 \(3, 2\) in the checkpoint and float32 \(4, 2\)"):
        restore(tmp_path, small_model(4))
    assert state(*other) == before


def test_a_model_alone(tmp_path):
    with Checkpoints(tmp_path, *small_run(3.0)) as checkpoints:
        checkpoints.save()
    model, _ = small_run()
    restore(tmp_path, model)
    assert all((v.numpy() == 3.0).all() for v in model.trainable_variables)


@pytest.fixture
def three(tmp_path):
    """Checkpoints of the steps 1 to 3 and the run that made them."""
    with Checkpoints(tmp_path, *small_run(), every=1) as checkpoints:
        steps(checkpoints, 3)
    return tmp_path, checkpoints.model, checkpoints.optimizer


def test_the_one_before_a_damaged_one(three):
    folder, model, optimizer = three
    newest = files_in(folder)[3]
    content = bytearray(newest.read_bytes())
    content[-5] ^= 1
    newest.write_bytes(content)
    files_in(folder)[2].write_bytes(b"not one of ours")
    found = restore(folder, model, optimizer)
    assert found.step == 1 and len(found.passed_over) == 2
    assert "step-000000003.safetensors is damaged" in found.passed_over[0]
    with Checkpoints(folder, model, optimizer, every=1, resume=True) as checkpoints:  # what is left of the others goes
        steps(checkpoints, 1)
    assert sorted(files_in(folder)) == [1, 2] and restore(folder, model, optimizer).step == 2


def test_no_whole_one_is_left(three):
    folder, model, optimizer = three
    for path in files_in(folder).values():
        path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(BadData, match=r"has no whole checkpoint\. .*step-000000003.*step-000000001"):
        restore(folder, model, optimizer)
    with pytest.raises(BadData, match="nowhere can't be read: No such file"):
        restore(folder / "nowhere", model, optimizer)


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"file": "step-000000099.safetensors"}', '{"file": 3}'])
def test_a_pointer_that_says_nothing(three, content):
    folder, model, optimizer = three
    (folder / POINTER).unlink() if content is None else (folder / POINTER).write_text(content)
    assert restore(folder, model, optimizer).step == 3


def test_the_pointer_decides(three, monkeypatch):
    """It is read once: between two looks another save may have moved it."""
    folder, model, optimizer = three
    (folder / POINTER).write_text('{"file": "step-000000002.safetensors", "step": 2}')
    looks, look = [], saves._pointer
    monkeypatch.setattr(saves, "_pointer", lambda folder: looks.append(folder) or look(folder))
    assert restore(folder, model, optimizer).step == 2 and looks == [folder]


@pytest.mark.parametrize("per_execution", [1, 3])
def test_with_fit(rows, tmp_path, per_execution):
    schema, path = rows
    model, optimizer = new_run(schema)
    compile_model(model, optimizer)
    model.steps_per_execution = per_execution
    with Checkpoints(tmp_path, model, optimizer, every=6, keep=9) as checkpoints:
        model.fit(data.read(path, schema, **BATCH), epochs=2, steps_per_epoch=9, verbose=0, callbacks=[checkpoints.callback()])
        assert checkpoints.position == 18
    assert sorted(files_in(tmp_path)) == [6, 12, 18]
    expected = state(model, optimizer)
    for v in state_variables(model, optimizer).values():
        v.assign(tf.zeros(v.shape, v.dtype))
    assert restore(tmp_path, model, optimizer).position == 18
    assert state(model, optimizer) == expected


def test_ten_kills(survives_ten_kills):
    survives_ten_kills(KILLING, 1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_a_hundred_kills(survives_ten_kills, seed):
    survives_ten_kills(KILLING, 100 + seed)

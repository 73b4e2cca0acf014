"""What may lie in a folder of checkpoints, or happen to it while it is read; and what a run can't save there."""

import os

import keras
import pytest
from runs_with_tables import content, new_run, restored, saved, train_to

from ctrlab.errors import BadData
from ctrlab.training import Checkpoints, restore
from ctrlab.training.checkpoint import CheckpointError
from ctrlab.training.saves import POINTER, Link
from ctrlab.training.shards import merge_chain, read_any

LATER = "step-000000009.safetensors"


def a_pipe_for_a_pointer(folder):
    (folder / POINTER).unlink()
    os.mkfifo(folder / POINTER)


ODD = {
    "a pipe like a save": lambda folder: os.mkfifo(folder / LATER),
    "a folder like a save": lambda folder: (folder / LATER).mkdir(),
    "a pipe for a pointer": a_pipe_for_a_pointer,
    "a pointer of 5,000 digits": lambda folder: (folder / POINTER).write_text(f'{{"file": "step-{"9" * 5000}.safetensors"}}'),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_odd_things_in_a_folder(tmp_path, make):
    folder = tmp_path / "run"
    contents = saved(folder, 2)
    make(folder)
    assert restored(folder)[1] == contents[2] and read_any([folder])[0].step == 2
    assert restored(merge_chain(folder, tmp_path / "out").parent)[1] == contents[2]


@pytest.mark.parametrize("read", [lambda folder: restore(folder, *new_run()), lambda folder: merge_chain(folder, folder / "out")])
@pytest.mark.parametrize("name, why", [("none", "No such file or directory"), ("file", "Not a directory")])
def test_a_folder_that_can_t_be_read(tmp_path, name, why, read):
    (tmp_path / "file").touch()
    with pytest.raises(BadData, match=f"^Folder {tmp_path / name} can't be read: {why}.$"):
        read(tmp_path / name)


def test_a_folder_whose_name_is_no_text(tmp_path):
    folder = tmp_path / os.fsdecode(b"run\xff")
    contents, run = saved(folder, 2), new_run()
    with Checkpoints(folder, *run, every=1, resume=True) as checkpoints:
        assert content(run) == contents[2]
        train_to(run, 3, checkpoints)
    assert restored(folder)[1] == content(run)


def test_a_save_that_goes_while_the_folder_is_read(tmp_path, monkeypatch):
    """With one kept, the run writes the next one and deletes the one that a reader has just seen."""
    run, open_now = new_run(), Link.open
    with Checkpoints(tmp_path, *run, every=1, keep=1, asynchronous=False) as checkpoints:
        train_to(run, 1, checkpoints)

        def open_late(path):
            train_to(run, 3, checkpoints)
            return open_now(path)

        monkeypatch.setattr(Link, "open", open_late)
        found, there = restored(tmp_path)
    assert found.step == 3 and there == content(run) and not found.passed_over


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_model_of_a_dtype_that_files_lack(tmp_path, asynchronous):
    model, optimizer = new_run()
    model.dense = keras.layers.Dense(2, dtype="bfloat16", name="half")
    model.dense.build([None, 3])
    with pytest.raises(CheckpointError, match=r"Checkpoints take variables of float64, .*; model/half/kernel is bfloat16"):
        Checkpoints(tmp_path / "run", model, optimizer, asynchronous=asynchronous)
    assert not (tmp_path / "run").exists()

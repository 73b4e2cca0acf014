"""Odd files in a folder of checkpoints, changes of the folder while it is read, and saves that can't be written there."""

import errno
import os

import keras
import pytest
from runs_with_tables import content, new_run, restored, saved, train_to

from ctrlab.embedding.formats import saves
from ctrlab.embedding.formats.resharding import merge_chain, read_any
from ctrlab.embedding.formats.saves import ATTEMPTS, POINTER, Link, files_in, last_whole, newest_first, spare
from ctrlab.errors import BadData, CtrlabError
from ctrlab.training import Checkpoints, checkpoint, restore
from ctrlab.training.checkpoint import CheckpointError

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
    """With `keep` of 1, the run writes the next save and deletes the one that a reader has just seen."""
    run, open_now = new_run(), Link.open
    with Checkpoints(tmp_path, *run, every=1, keep=1, asynchronous=False) as checkpoints:
        train_to(run, 1, checkpoints)

        def open_late(path):
            train_to(run, 3, checkpoints)
            return open_now(path)

        monkeypatch.setattr(Link, "open", open_late)
        found, there = restored(tmp_path)
    assert found.step == 3 and there == content(run) and not found.passed_over


def before_the_second(step, call):
    """`call`; before it is called a second time, `step` is done."""
    calls = iter([lambda: None, step])

    def called(*arguments):
        next(calls, lambda: None)()
        return call(*arguments)

    return called


def test_a_chain_that_goes_while_its_second_file_is_opened(tmp_path, monkeypatch):
    """The saver has written the next one and deletes the chain, of which the full one is still there."""
    run = new_run()
    with Checkpoints(tmp_path, *run, every=1, full_every=3, keep=1, asynchronous=False) as checkpoints:
        train_to(run, 3, checkpoints)
        monkeypatch.setattr(checkpoint, "spare", lambda *arguments: spare(*arguments)[:-1])
        monkeypatch.setattr(Link, "open", before_the_second(lambda: train_to(run, 4, checkpoints), Link.open))
        found, there = restored(tmp_path)
    assert list(files_in(tmp_path)) == [1, 4]
    assert found.step == 4 and there == content(run) and not found.passed_over and not found.lost


def test_a_save_that_goes_between_the_pointer_and_the_listing(tmp_path, monkeypatch):
    run = new_run()
    with Checkpoints(tmp_path, *run, every=1, keep=1, asynchronous=False) as checkpoints:
        train_to(run, 1, checkpoints)
        listing = iter([lambda: train_to(run, 2, checkpoints)])
        monkeypatch.setattr(
            saves, "newest_first", lambda *arguments: (next(listing, lambda: None)(), newest_first(*arguments))[1]
        )
        found, there = restored(tmp_path)
    assert found.step == 2 and there == content(run) and not found.passed_over


@pytest.mark.parametrize(
    "keep, times, says",
    [
        (1, 1, r"^Folder .* has no whole checkpoint\. No use 1\.$"),
        (2, ATTEMPTS, rf"{ATTEMPTS} times one that was listed .* Keep more .* The last time: No use {ATTEMPTS}\.$"),
    ],
)
def test_what_can_t_be_used_ends_beside_a_run_that_goes_on(tmp_path, keep, times, says):
    """A use that refuses begins nothing anew; the file that went meanwhile does, and not for ever."""
    run, used = new_run(), []

    def refuse(links):
        used.append(links[-1].save.step)
        assert len(used) <= ATTEMPTS
        train_to(run, used[-1] + keep, checkpoints)
        raise BadData(f"No use {len(used)}.")

    with Checkpoints(tmp_path, *run, every=1, keep=keep, asynchronous=False) as checkpoints:
        train_to(run, keep, checkpoints)
        with pytest.raises(BadData, match=says):
            last_whole(tmp_path, refuse)
    assert len(used) == times


@pytest.fixture
def refusing(monkeypatch):
    """`refusing(path, code)`: opening or listing it fails so from now on."""
    open_now, list_now = os.open, os.listdir

    def refuse(of, code):
        def checked(call):
            def called(path, *arguments, **named):
                if os.fspath(path) == os.fspath(of):
                    raise OSError(code, os.strerror(code))
                return call(path, *arguments, **named)

            return called

        monkeypatch.setattr(os, "open", checked(open_now))
        monkeypatch.setattr(os, "listdir", checked(list_now))

    return refuse


@pytest.mark.parametrize("listing", [False, True])
@pytest.mark.parametrize(
    "code, cure",
    [
        (errno.EMFILE, "Too many open files; ask for fewer, or raise `ulimit -n`"),
        (errno.ENFILE, "Too many open files in system; end programs that hold many open"),
        (errno.ENOMEM, "Cannot allocate memory; free some memory"),
        (errno.EACCES, "Permission denied; change its permissions"),
        (errno.EPERM, "Operation not permitted; change its permissions"),
    ],
)
def test_a_save_that_can_t_be_opened_now_is_no_damage(tmp_path, refusing, code, cure, listing):
    saved(tmp_path, 3)
    run = new_run()
    before = content(run)
    refusing(tmp_path if listing else files_in(tmp_path)[2], code)
    with pytest.raises(CtrlabError, match=rf"can't be opened: {cure}\.$") as caught:
        restore(tmp_path, *run)
    assert not isinstance(caught.value, BadData) and content(run) == before


def test_a_save_that_can_t_be_read_is_passed_over(tmp_path, refusing):
    contents = saved(tmp_path, 3)
    refusing(files_in(tmp_path)[3], errno.EIO)
    found, there = restored(tmp_path)
    assert there == contents[2] and "Input/output error" in found.passed_over[0]


def test_nothing_goes_where_a_save_can_t_be_opened(tmp_path, refusing):
    """If a save can't be opened, the save that it follows is unknown."""
    run = new_run()
    with Checkpoints(tmp_path, *run, every=1, full_every=4, keep=1, asynchronous=False) as checkpoints:
        train_to(run, 2, checkpoints)
        refusing(files_in(tmp_path)[2], errno.EMFILE)
        with pytest.raises(
            CheckpointError,
            match=r"it is not known which these are: .* can't be opened: Too many open files.* That of step 3 is written",
        ):
            train_to(run, 3, checkpoints)
    assert list(files_in(tmp_path)) == [1, 2, 3]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_model_of_a_dtype_that_files_lack(tmp_path, asynchronous):
    model, optimizer = new_run()
    model.dense = keras.layers.Dense(2, dtype="bfloat16", name="half")
    model.dense.build([None, 3])
    with pytest.raises(CheckpointError, match=r"float64, .*model/half/kernel is bfloat16"):
        Checkpoints(tmp_path / "run", model, optimizer, asynchronous=asynchronous)
    assert not (tmp_path / "run").exists()

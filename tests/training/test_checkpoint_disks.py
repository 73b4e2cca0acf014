"""If the disk refuses a checkpoint, one sentence says so, and the next save contains its changes."""

import errno
import os
import resource
import shutil
from pathlib import Path

import pytest
from small_runs import small_run, steps

from ctrlab.embedding.formats.saves import files_in
from ctrlab.errors import BadData
from ctrlab.training.checkpoint import CheckpointError, Checkpoints


def disk_that_fails(monkeypatch, call="fsync"):
    def fail(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, fail)


@pytest.mark.parametrize("call", ["pwrite", "fsync", "replace"])
def test_a_full_disk_is_told_by_the_next_step(tmp_path, call, monkeypatch):
    checkpoints = Checkpoints(tmp_path, *small_run(), every=2)
    steps(checkpoints, 1)
    disk_that_fails(monkeypatch, call)
    steps(checkpoints, 1)
    checkpoints._writing.exception()  # it has failed, but nobody has been told
    with pytest.raises(CheckpointError, match=r"step 2 could not be written to .*: No space left on device"):
        steps(checkpoints, 1)
    monkeypatch.undo()
    steps(checkpoints, 1)  # the disk has room again: the next one is written
    checkpoints.close()
    assert sorted(files_in(tmp_path)) == [4]


def test_a_full_disk_is_told_at_the_end(tmp_path, monkeypatch):
    disk_that_fails(monkeypatch)
    with pytest.raises(CheckpointError, match="step 1 could not be written"), Checkpoints(tmp_path, *small_run(), every=1) as c:
        steps(c, 1)


@pytest.mark.parametrize("asynchronous", [True, False])
def test_what_a_full_disk_refused_is_saved_at_the_end(tmp_path, monkeypatch, asynchronous):
    with Checkpoints(tmp_path, *small_run(), asynchronous=asynchronous) as checkpoints:
        steps(checkpoints, 1)
        disk_that_fails(monkeypatch)
        with pytest.raises(CheckpointError):
            checkpoints.save_last()
        monkeypatch.undo()
        checkpoints.save_last()
    assert sorted(files_in(tmp_path)) == [1]


@pytest.mark.parametrize("asynchronous", [True, False])
def test_what_the_memory_refused_is_saved_at_the_end(tmp_path, monkeypatch, asynchronous):
    def fail(*_):
        raise MemoryError

    with Checkpoints(tmp_path, *small_run(), asynchronous=asynchronous) as checkpoints:
        steps(checkpoints, 1)
        with monkeypatch.context() as patch, pytest.raises(MemoryError):
            patch.setattr(os, "pwrite", fail)
            checkpoints.save_last()
        checkpoints.save_last()
    assert sorted(files_in(tmp_path)) == [1]


@pytest.mark.parametrize(
    "problem, cure",
    [
        (OSError(errno.ENOSPC, "No space left on device"), "free some space or name another folder, and resume"),
        (OSError(errno.EMFILE, "Too many open files"), "ask for fewer, or raise `ulimit -n`, and resume"),
        (BadData("Table item has each key once."), "resume from them"),
    ],
)
def test_each_failure_has_its_own_cure(tmp_path, monkeypatch, problem, cure):
    def fail(*_):
        raise problem

    with Checkpoints(tmp_path, *small_run(), asynchronous=False) as checkpoints, monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fail)
        with pytest.raises(CheckpointError, match=rf"step 0 could not .*: [^.]*\. Earlier ones are as they were; {cure}\.$"):
            checkpoints.save()


def test_a_full_disk_is_told_beside_another_failure(tmp_path, monkeypatch):
    disk_that_fails(monkeypatch)
    with pytest.raises(BadData) as caught, Checkpoints(tmp_path, *small_run(), every=1) as checkpoints:
        steps(checkpoints, 1)
        raise BadData("a loss must be finite")
    assert "step 1 could not be written" in caught.value.__notes__[0]


def test_a_folder_that_was_removed(tmp_path):
    checkpoints = Checkpoints(tmp_path / "run", *small_run(), every=1)
    shutil.rmtree(tmp_path / "run")
    steps(checkpoints, 1)
    with pytest.raises(CheckpointError, match="No such file or directory"):
        checkpoints.close()


def test_a_new_folder_is_forced_to_the_disk_before_a_file_is_in_it(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(Path(os.readlink(f"/proc/self/fd/{file}"))), fsync(file)))
    folder = tmp_path / "runs" / "new"
    with Checkpoints(folder, *small_run(), asynchronous=False) as checkpoints:
        assert synced == [tmp_path, tmp_path / "runs"]
        checkpoints.save()
        assert synced[3] == folder


def test_old_checkpoints_that_can_not_be_deleted(tmp_path, monkeypatch):
    """The new one is there, and nothing is said to be lost."""

    def fail(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    with Checkpoints(tmp_path, *small_run(), every=1, keep=1, asynchronous=False) as checkpoints:
        steps(checkpoints, 1)
        with (
            monkeypatch.context() as patch,
            pytest.raises(CheckpointError, match=r"no longer needed are deleted; .* That of step 2 is"),
        ):
            patch.setattr(Path, "unlink", fail)
            steps(checkpoints, 1)
        assert sorted(files_in(tmp_path)) == [1, 2]
        steps(checkpoints, 1)
    assert sorted(files_in(tmp_path)) == [3]


def test_a_folder_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="can't take checkpoints"):
        Checkpoints(tmp_path / "file" / "run", *small_run())


def test_a_file_that_may_not_grow(tmp_path):
    """A limit of the system, as a quota is: the first write gets a part of the file to the disk, the next one none."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    checkpoints = Checkpoints(tmp_path, *small_run(), every=1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
    try:
        with pytest.raises(CheckpointError, match="File too large"):
            steps(checkpoints, 1)
            checkpoints.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert list(tmp_path.iterdir()) == []

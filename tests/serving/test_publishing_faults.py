"""Failures while a training publishes: a disk that refuses too late, kills, odd labels, too little memory."""

import errno
import os
import shutil
import sys

import pytest
from served import wait_for
from trainers import Trainer, published

from ctrlab import serving
from ctrlab.embedding.formats.folder_lock import FolderLock
from ctrlab.errors import CtrlabError
from ctrlab.serving.label_file import FILE, read_labels
from ctrlab.serving.processor import Processor
from ctrlab.serving.publishing_folder import LOCKED
from ctrlab.serving.version_labels import label_lock, set_label
from ctrlab.serving.versions import LAST, LEFTOVER, hide, new_version, sweep, versions


def fails_once(monkeypatch, module, function, problem, when=lambda *_: True):
    """This function of a module of ctrlab.serving raises the problem, once."""
    module = sys.modules[f"ctrlab.serving.{module}"]
    real = getattr(module, function)

    def fails(*arguments):
        if not when(*arguments):
            return real(*arguments)
        monkeypatch.setattr(module, function, real)
        raise problem

    monkeypatch.setattr(module, function, fails)


@pytest.fixture
def trainer(small_batches):
    return Trainer(small_batches, "dlrm")


def test_an_update_that_is_in_place_has_used_up_its_number(trainer, tmp_path, monkeypatch, caplog):
    """A server may have applied it, although the disk then refused to make it durable."""
    folder = tmp_path / "ctr"
    with trainer.publisher(folder, every=1e6) as publisher:
        trainer.step()
        published(publisher)
        with Processor(folder, poll_seconds=0.01) as processor:
            fails_once(monkeypatch, "publishing", "sync_folder", OSError(errno.EIO, "Input/output error"))
            trainer.step()
            published(publisher)
            assert "could not be published" in caplog.text and publisher.published.updates == 0
            wait_for(lambda: processor.info()["update"] == 1)
            for update in (2, 3):
                trainer.step()
                published(publisher)
                wait_for(lambda: processor.info()["update"] == update)  # noqa: B023
                assert trainer.agrees(processor) == (1, update)
    with Processor(folder, poll_seconds=0) as processor:
        assert trainer.agrees(processor) == (1, 3)


def test_a_version_that_is_in_place_has_used_up_its_number(trainer, tmp_path, monkeypatch):
    folder = tmp_path / "ctr"
    with trainer.publisher(folder, every=1e6, full_every=2) as publisher:
        for _ in range(2):
            trainer.step()
            published(publisher)
        with Processor(folder, poll_seconds=0.01) as processor:
            problem = OSError(errno.EIO, "Input/output error")
            fails_once(monkeypatch, "versions", "sync_folder", problem, lambda place: place == folder)
            trainer.step()
            published(publisher)
            wait_for(lambda: processor.info()["version"] == 2)
            trainer.step()
            published(publisher)
            wait_for(lambda: processor.info()["version"] == 3)
            trainer.step()
            published(publisher)
            wait_for(lambda: processor.info()["update"] == 1)
            assert trainer.agrees(processor) == (3, 1)


def test_a_version_that_was_deleted_by_hand_is_followed_by_a_full_one(trainer, tmp_path, caplog):
    folder = tmp_path / "ctr"
    with trainer.publisher(folder, every=1e6) as publisher:
        trainer.step()
        published(publisher)
        for name in ("1", "1.updates"):
            shutil.rmtree(folder / name)
        for _ in range(2):
            trainer.step()
            published(publisher)
        assert "Version 1 in" in caplog.text and "A full version follows" in caplog.text
        assert (publisher.published.versions, publisher.published.updates) == (2, 1)
    with Processor(folder, poll_seconds=0) as processor:
        assert trainer.agrees(processor) == (2, 1)


def test_what_killed_publishers_left_goes_and_exports_stay(trainer, tmp_path):
    folder = tmp_path / "ctr"
    (folder / "1.updates").mkdir(parents=True)  # a publisher was killed before its version 1 was in place
    (folder / "1.updates" / "1").write_text("of a version that is gone")
    assert serving.export_model(trainer.model, folder) == folder / "1"
    assert not (folder / "1.updates").exists()
    with trainer.publisher(folder, every=1e6, full_every=1, keep=1) as publisher:
        trainer.step()
        published(publisher)
        (folder / "2.updates" / ".3-0123456789abcdef").write_text("half an update")
        (folder / "5.updates").mkdir()
        set_label(folder, "stable", 2)
        trainer.step()
        published(publisher)
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"1", "2", "2.updates", "3", "3.updates", LOCKED}
    assert not list((folder / "2.updates").iterdir())
    serving.verify(folder / "1")


class Killed(BaseException):
    pass


def test_a_deletion_that_is_killed_leaves_whole_versions_only(tmp_path, monkeypatch):
    """Killed before each call that changes the disk."""
    kills = 0
    for at in range(100):
        folder = tmp_path / str(at) / "ctr"
        for name in ("1/ctrlab.json", "1/assets/weights", "1.updates/1", "1.updates/2", "2/ctrlab.json", "2.updates/1"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(name)
        left = at
        with monkeypatch.context() as patch:

            def dying(real):
                def dies(*arguments, **options):
                    nonlocal left
                    left -= 1
                    if left < 0:
                        raise Killed
                    return real(*arguments, **options)

                return dies

            for name in ("rename", "unlink", "rmdir"):
                patch.setattr(os, name, dying(getattr(os, name)))
            try:
                hide(folder, 1)
                sweep(folder)
            except Killed:
                kills += 1
        for number in versions(folder):
            assert (folder / str(number) / "ctrlab.json").exists(), at
        there = versions(folder)
        assert there in ([1, 2], [2]) and (there == [2] or (folder / "1.updates" / "2").exists())
        with new_version(folder) as (number, _):
            assert number == 3
        left_there = {"1", "1.updates"} if 1 in there else set()
        assert {path.name for path in folder.iterdir()} == {"2", "2.updates", "3", LAST} | left_there
        if left > 0:
            break
    assert kills > 5


def test_a_sweep_leaves_what_is_not_ours(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").write_text("")
    folder = tmp_path / "ctr"
    (folder / "7.updates").mkdir(parents=True)
    (folder / "7").symlink_to(tmp_path / "a disk that is away")
    (folder / "notes.updates").mkdir()
    (folder / "8.updates").write_text("a file")
    (folder / "9.updates").symlink_to(tmp_path / "elsewhere")
    (folder / f"{LEFTOVER}1").symlink_to(tmp_path / "elsewhere")
    sweep(folder)
    assert {path.name for path in folder.iterdir()} == {"7", "7.updates", "notes.updates", "8.updates"}
    assert (tmp_path / "elsewhere" / "a").exists()


def test_a_version_that_gets_a_label_is_not_deleted_meanwhile(trainer, tmp_path, monkeypatch):
    folder = tmp_path / "ctr"
    with trainer.publisher(folder, every=1e6, full_every=1, keep=1) as publisher:
        trainer.step()
        published(publisher)
        real = serving.verify

        def slow(place):
            found = real(place)
            trainer.step()
            published(publisher)
            return found

        monkeypatch.setattr("ctrlab.serving.version_labels.verify", slow)
        assert set_label(folder, "stable", 1) == {"stable": 1}
        serving.verify(folder / "1")
        for _ in range(2):
            trainer.step()
            published(publisher)
        assert versions(folder) == [1, 4] and read_labels(folder) == {"stable": 1}
        with pytest.raises(CtrlabError, match="has 1, 4, received 2"):
            set_label(folder, "stable", 2)


def test_odd_labels_and_others_at_work_only_put_deletions_off(trainer, tmp_path, caplog):
    folder = tmp_path / "ctr"

    def said():
        found = [record.message for record in caplog.records if record.name == "ctrlab.serving.publishing"]
        caplog.clear()
        return found

    with trainer.publisher(folder, every=1e6, full_every=5, keep=1) as publisher:

        def more(count=1):
            for _ in range(count):
                trainer.step()
                published(publisher)
            return versions(folder)

        assert more(5) == [1] and said() == []
        (folder / FILE).write_text('{"stable": 1,}')
        assert more(2) == [1, 2]
        [once] = said()
        assert "Old versions in" in once and FILE in once
        (folder / FILE).unlink()
        with FolderLock(folder):
            assert more() == [1, 2] and "is in use" in said()[0]
        with label_lock(folder):
            assert more() == [1, 2] and "lock" in said()[0]
        assert more() == [2] and said() == []
        (folder / FILE).write_text("odd")
        assert more() == [2, 3]
        trainer.step()
    assert (publisher.published.versions, publisher.published.updates) == (3, 9)  # `close` raises nothing


@pytest.mark.parametrize("where", ["write_update", "write_weights", "sync_folder"])
def test_too_little_memory_is_tried_again_with_the_next(small_batches, tmp_path, monkeypatch, caplog, where):
    trainer, folder = Trainer(small_batches, "dlrm"), tmp_path / "ctr"
    with trainer.publisher(folder, every=1e-9, full_every=1 if where == "write_weights" else 60) as publisher:
        trainer.step()
        published(publisher)
        fails_once(monkeypatch, "publishing", where, MemoryError())
        trainer.step()
        published(publisher)
        assert "could not be published" in caplog.text and "free some memory" in caplog.text
        trainer.step()
        publisher(2, 0.0)
        publisher.wait()
        with Processor(folder, poll_seconds=0) as processor:
            trainer.agrees(processor)


def test_too_little_memory_for_a_copy_is_tried_again_with_the_next(trainer, tmp_path, monkeypatch, caplog):
    folder = tmp_path / "ctr"
    with trainer.publisher(folder, every=1e6) as publisher:
        trainer.step()
        published(publisher)
        with monkeypatch.context() as full:
            full.setattr(publisher, "_cut", lambda anew: (_ for _ in ()).throw(MemoryError()))
            trainer.step()
            published(publisher)
        assert "free some memory" in caplog.text
    with Processor(folder, poll_seconds=0) as processor:  # `close` tried again
        assert trainer.agrees(processor) == (1, 1)

"""The file that makes the workers' files one save: what is in it is checked, and a disk that refuses it is one sentence."""

import errno
import json
import os

import pytest

from ctrlab.distributed import Place, Workers
from ctrlab.distributed.checkpoints import SharedCheckpoints
from ctrlab.distributed.manifest import Common, read_manifest, write_manifest
from ctrlab.embedding.formats import saves as formats
from ctrlab.errors import BadData, CtrlabError
from ctrlab.models import build
from ctrlab.serving.shared_publishing import SharedPublisher
from ctrlab.training import CheckpointError, make_optimizer

SAVE = {"step": 6, "position": 6, "history": [[3, 2], [2, 4]], "ids": ["a", "b"], "sharded": ["model/x"]}


def put(folder, text):
    (folder / formats.OF_WORKERS).write_text(text)


def test_what_is_written_is_read(tmp_path):
    assert read_manifest(tmp_path) == []
    saves = [Common(6, 6, ((3, 2), (2, 4)), ("a", "b"), ("model/x",)), Common(0, 0, ((2, 0),), ("a", "b"), ())]
    write_manifest(tmp_path, saves)
    assert read_manifest(tmp_path) == saves
    put(tmp_path, json.dumps({"saves": [SAVE]}))
    assert read_manifest(tmp_path) == saves[:1]


@pytest.mark.parametrize(
    "change",
    [
        *({"ids": []}, {"ids": "ab"}, {"ids": [1, 2]}, {"ids": None}, {"ids": ["a", "b", "c"]}, {"step": "x"}, {"step": -1}),
        *({"position": None}, {"position": 7}, {"history": []}, {"history": [["a", 6]]}, {"history": [[2, 6, 1]]}),
        *({"history": [[0, 6]]}, {"sharded": None}, {"more": 1}),
    ],
    ids=str,
)
def test_a_damaged_save_is_one_sentence(change, tmp_path):
    put(tmp_path, json.dumps({"saves": [SAVE | change]}))
    with pytest.raises(BadData, match=r"workers.json says which saves are whole; it is damaged"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("text", ["[]", "{}", '{"saves": 5}', '{"saves": {}}', '{"saves": [[]]}', "", "\0", "[" * 100_000])
def test_a_damaged_file_is_one_sentence(text, tmp_path):
    put(tmp_path, text)
    with pytest.raises(BadData, match=r"workers.json says which saves are whole; it is damaged"):
        read_manifest(tmp_path)


@pytest.fixture
def of_one():
    """(workers, model, optimizer): one worker, which is all of them."""
    model = build("deepfm", size="small", embedding="variable")
    return Workers(Place(("localhost:1",), 0)), model, make_optimizer(model)


def test_a_disk_that_is_full_for_the_manifest_alone(of_one, monkeypatch, tmp_path):
    workers, model, optimizer = of_one
    saver = SharedCheckpoints(workers, tmp_path, model, optimizer, asynchronous=False)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with saver:
        saver.save()
        monkeypatch.setattr("ctrlab.distributed.checkpoints.write_manifest", full)
        optimizer.iterations.assign_add(1)
        with pytest.raises(CheckpointError, match=r"step 1 could not be named in .*: No space left.*Earlier ones are as"):
            saver.save()
    assert [save.step for save in read_manifest(tmp_path)] == [0]


def test_a_damaged_save_is_passed_over_and_what_is_lost_is_said(of_one, tmp_path):
    workers, model, optimizer = of_one
    with SharedCheckpoints(workers, tmp_path, model, optimizer, every=1) as saver:
        for _ in range(2):
            optimizer.iterations.assign_add(1)
            saver.advance(1)
    newest = tmp_path / "worker-0-of-1" / "step-000000002.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    with SharedCheckpoints(workers, tmp_path, model, optimizer, resume=True) as saver:
        assert saver.position == saver.restored.step == int(optimizer.iterations) == 1
        [problem] = saver.restored.passed_over
        assert str(newest) in problem
        assert "Went back from step 2 to step 1, and from batch 2 to batch 1" in saver.restored.lost


def test_a_save_before_there_were_other_settings_is_taken(of_one, tmp_path):
    workers, model, optimizer = of_one
    with SharedCheckpoints(workers, tmp_path, model, optimizer, run={"seed": "7"}) as saver:
        saver.save()
    known = {"seed": "7", "sizes": "contest", "validation": "none"}
    with SharedCheckpoints(workers, tmp_path, model, optimizer, run=known, resume=True) as saver:
        assert saver.restored.step == 0 and not saver.restored.lost
    with pytest.raises(CtrlabError, match=r"goes on with the same sizes; .* has contest, now it is small"):
        SharedCheckpoints(workers, tmp_path, model, optimizer, run=known | {"sizes": "small"}, resume=True)


def test_a_folder_that_a_worker_can_not_write_is_refused_before_the_first_step(of_one, monkeypatch, tmp_path):
    def only_read(path, *_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr("pathlib.Path.touch", only_read)
    with pytest.raises(CtrlabError, match=r"could not be published to .*: Read-only file system"):
        SharedPublisher(of_one[0], tmp_path / "ctr", *of_one[1:])
    assert not list((tmp_path / "ctr").glob(".parts-*"))

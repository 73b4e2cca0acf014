"""Temporary refusals, such as half a copy or too little memory, are tried again. A copy of a version is independent of it."""

import json
import shutil
import subprocess
import sys

import pytest
from served import first, wait_for
from trainers import Trainer, published
from wire_requests import by_columns, message

from ctrlab import models, serving
from ctrlab.serving import inputs, wire
from ctrlab.serving.bundled import WEIGHTS
from ctrlab.serving.processor import Processor


def test_a_version_that_is_copied_piece_by_piece_is_served_when_it_is_whole(din, tmp_path):
    """The manifest first, as some tools copy."""
    folder = tmp_path / "ctr"
    shutil.copytree(din[0] / "1", folder / "1")
    with Processor(folder, poll_seconds=0.02) as processor:
        (folder / "2").mkdir()
        for name in ("ctrlab.json", "saved_model.pb"):
            shutil.copy(din[0] / "1" / name, folder / "2" / name)
        wait_for(lambda: "2" in processor.info()["refused"])
        for name in ("assets", "assets.extra"):
            shutil.copytree(din[0] / "1" / name, folder / "2" / name)
        wait_for(lambda: processor.info()["version"] == 2)
        assert processor.info()["refused"] == {}


def test_a_version_s_number_may_be_a_time_in_nanoseconds(din, tmp_path):
    number = 1_795_558_589_770_427_000
    shutil.copytree(din[0] / "1", tmp_path / "ctr" / str(number))
    shutil.copytree(din[0] / "1", tmp_path / "ctr" / str(1 << 63))
    with Processor(tmp_path / "ctr", poll_seconds=0) as processor:
        assert processor.info()["version"] == number


def test_updates_are_of_one_folder_not_of_its_copies(small_batches, tmp_path):
    trainer, folder = Trainer(small_batches, "din"), tmp_path / "ctr"
    with trainer.publisher(folder, every=1e6) as publisher:
        trainer.step()
        published(publisher)
        shutil.copytree(folder / "1", tmp_path / "frozen" / "1")
        shutil.copytree(folder / "1", folder / "0.copy")
        with Processor(tmp_path / "frozen", poll_seconds=0, name="ctr") as frozen, Processor(folder, poll_seconds=0.02) as live:
            columns = inputs.inputs_of(trainer.model, "text")
            body = by_columns(inputs.to_tensors(first(trainer.batches[0][0], 5), columns, trainer.model))
            before = [json.loads(each.process(body, "json").data) for each in (frozen, live)]
            assert before[0] == before[1]
            trainer.step()
            published(publisher)
            wait_for(lambda: live.info()["update"] == 1)
            assert trainer.agrees(live) == (1, 1)
            assert json.loads(frozen.process(body, "json").data) == before[0] and frozen.info()["update"] == 0
            # The first version again, under the next number: it begins without updates.
            (folder / "0.copy").rename(folder / "2")
            wait_for(lambda: live.info()["version"] == 2)
            assert live.info()["update"] == 0 and json.loads(live.process(body, "json").data) == before[0]


LITTLE = """
import os, resource, sys, time
from ctrlab.serving.processor import Processor

folder, waiting = sys.argv[1:]
with Processor(folder, poll_seconds=0.05) as processor:
    used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + (48 << 20), resource.RLIM_INFINITY))
    os.rename(waiting, folder + "/2")
    while not (said := processor.info()["refused"].get("2")):
        time.sleep(0.01)
    assert processor.info()["version"] == 1
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    while processor.info()["version"] != 2:
        time.sleep(0.01)
    print(said)
"""


def test_a_version_for_which_memory_did_not_suffice_is_tried_again(din, tmp_path):
    large = serving.export_model(models.build("din", optimizations="all"), tmp_path / "large")
    assert (large / "assets" / WEIGHTS).stat().st_size > 64 << 20
    shutil.copytree(din[0] / "1", tmp_path / "ctr" / "1")
    command = [sys.executable, "-c", LITTLE, tmp_path / "ctr", large]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0 and "memory does not suffice" in ran.stdout, ran.stdout + ran.stderr


TEXTS = """
import os, resource, sys
from ctrlab.serving.processor import Processor, Refused

with Processor(sys.argv[1], poll_seconds=0, most_model_bytes=1 << 50) as processor, open(sys.argv[2], "rb") as file:
    request = file.read()
    used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + (60 << 20), resource.RLIM_INFINITY))
    try:
        processor.process(request, sys.argv[3])
    except Refused as refused:
        print(refused.code.name, refused)
"""


@pytest.mark.parametrize("format", ["infer", "predict", "json", "infer_json"])
def test_texts_for_which_memory_does_not_suffice_are_refused(din, tmp_path, format):
    """An empty text is 24 bytes in memory, and two to four on the wire. JSON is parsed into memory as a whole."""
    number, said = 4 << 20, "There is no memory for 4194304 values of item"
    if "json" in format:
        body, said = b'{"inputs": [' + b'"",' * number + b'""]}', "There is no memory for this call: send fewer rows."
    elif format == "infer":
        shape = bytes([3 << 3]) + wire.varint(number)
        body = message(5, message(1, b"item") + message(2, b"BYTES") + shape) + message(7, b"\0" * (4 * number))
    else:
        tensor = wire.number(1, 7) + message(2, message(2, wire.number(1, number))) + b"\x42\0" * number
        body = message(2, message(1, b"item") + message(2, tensor))
    (tmp_path / "request").write_bytes(body)
    ran = subprocess.run(
        [sys.executable, "-c", TEXTS, din[0], tmp_path / "request", format], capture_output=True, text=True, timeout=200
    )
    assert ran.stdout.startswith(f"UNAVAILABLE {said}"), ran.stdout + ran.stderr

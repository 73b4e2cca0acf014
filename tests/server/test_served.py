"""The version that answers a request: the newest, by number, or by label. Changes of labels and versions affect nothing else."""

import json
import logging
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
from serve_command import Server
from typer.testing import CliRunner
from wire_requests import by_rows, message

from ctrlab import serving
from ctrlab.cli import app
from ctrlab.errors import BadData, CtrlabError
from ctrlab.server.served import ServedModel
from ctrlab.serving import warm_up, wire
from ctrlab.serving.label_file import FILE, read_labels
from ctrlab.serving.processor import Refused
from ctrlab.serving.version_labels import set_label


@pytest.fixture
def three(published, small_batches, tmp_path):
    """A folder with three versions of a model whose answers tell which it is, and a request."""
    from ctrlab import models
    from ctrlab.model_names import DATA_SETS

    tensors = published[1]
    schema, batches = small_batches(DATA_SETS["din"])
    for seed in (1, 2, 3):
        model = models.build("din", schema, optimizations="all", seed=seed)
        serving.export_model(model, tmp_path / "ctr", rows=[batches[0][0]])
    return tmp_path / "ctr", by_rows(tensors), tensors


def answers(served, request):
    """Whoever answers, by what is asked for."""

    def ask(**asked):
        with served.use(**asked) as processor:
            return processor.process(request, "json")

    return ask


def test_labels_say_which_version_answers(three):
    folder, request, _ = three
    assert set_label(folder, "stable", 1) == {"stable": 1}
    served = ServedModel(folder, "ctr", poll_seconds=0)
    ask = answers(served, request)
    assert (ask().version, ask(label="stable").version, list(served.infos())) == (3, 1, [1, 3])
    assert ask().data != ask(label="stable").data
    set_label(folder, "stable", 2)
    set_label(folder, "canary", 3)
    assert ask(label="stable").version == 1
    served.look()
    assert (ask(label="stable").version, ask(label="canary").version, ask(version=2).version) == (2, 3, 2)
    assert list(served.infos()) == [2, 3]
    set_label(folder, "stable", None)
    served.look()
    with pytest.raises(Refused, match=r"labels canary; .*stable"):
        ask(label="stable")
    assert list(served.infos()) == [3]
    served.close()


def test_the_newest_are_kept(three):
    folder, request, _ = three
    served = ServedModel(folder, "ctr", keep=2, poll_seconds=0)
    ask = answers(served, request)
    assert [ask(version=2).version, ask(version=3).version, ask(version=1).version] == [2, 3, 3]  # 1: the newest's to refuse
    shutil.copytree(folder / "3", folder / "4")
    served.look()
    assert list(served.infos()) == [2, 3]  # this processor does not look for versions, so the newest is still 3
    served.close()
    with pytest.raises(CtrlabError, match="keep=0"):
        ServedModel(folder, "ctr", keep=0)


def test_a_label_of_a_broken_version_stays_where_it_was(three, caplog):
    folder, request, _ = three
    set_label(folder, "stable", 1)
    served = ServedModel(folder, "ctr", poll_seconds=0)
    ask = answers(served, request)
    (folder / "2" / "saved_model.pb").write_bytes(b"odd")
    (folder / FILE).write_text('{"stable": 2, "new": 2, "gone": 9}')
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            served.look()
    assert ask(label="stable").version == 1 and set(served.refused()) == {2, 9}
    assert sum("Version 2 of ctr is not served" in record.message for record in caplog.records) == 1
    with pytest.raises(Refused, match="received a request for new"):
        ask(label="new")
    for odd in ("", "{", "[]", '{"stable": "1"}', '{"stable": 0}', '{"a/b": 1}', '{"stable": true}'):
        (folder / FILE).write_text(odd)
        caplog.clear()
        for _ in range(2):
            served.look()
        assert ask(label="stable").version == 1 and sum("stay as they are" in r.message for r in caplog.records) == 1
    served.close()


def test_a_label_may_be_there_before_its_version(three):
    folder, request, _ = three
    (folder / "2").rename(folder / "later")
    (folder / FILE).write_text('{"canary": 2}')
    served = ServedModel(folder, "ctr", poll_seconds=0)
    ask = answers(served, request)
    with pytest.raises(Refused, match="received a request for canary"):
        ask(label="canary")
    assert list(served.refused()) == [2]
    (folder / "later").rename(folder / "2")
    served.look()
    assert ask(label="canary").version == 2 and served.refused() == {}
    served.close()


def test_a_version_stays_while_a_request_is_inside(three):
    folder, request, _ = three
    set_label(folder, "stable", 1)
    served = ServedModel(folder, "ctr", poll_seconds=0)
    with served.use(label="stable") as processor:
        set_label(folder, "stable", 2)
        served.look()
        assert processor.process(request, "json").version == 1
    with pytest.raises(Refused, match="until it is released"):
        processor.process(request, "json")
    served.close()


def test_no_request_fails_while_labels_move(three):
    folder, request, _ = three
    set_label(folder, "stable", 1)
    served = ServedModel(folder, "ctr", poll_seconds=0)
    ask, ends, found = answers(served, request), threading.Event(), []

    def asks():
        while not ends.is_set():
            found.append(ask(label="stable").version)

    with ThreadPoolExecutor(3) as pool:
        working = [pool.submit(asks) for _ in range(3)]
        for number in (2, 1, 3, 2, 1):
            set_label(folder, "stable", number)
            served.look()
        ends.set()
        for each in working:
            each.result()
    assert set(found) >= {1, 2} and len(found) > 20
    served.close()


def test_clients_ask_by_label_and_number(three):
    folder, request, tensors = three
    set_label(folder, "stable", 1)
    server = Server(folder.parent, "--keep", "2")
    try:
        for path, expected in (("", 3), ("/labels/stable", 1), ("/versions/2", 2), ("/versions/1", 1)):
            status, headers, _ = server.ask("POST", f"/v1/models/ctr{path}:predict", request)
            assert (status, headers["x-model-version"]) == (200, str(expected))
            assert server.ask("GET", f"/v2/models/ctr{path}/ready")[0] == 200
        status, _, body = server.ask("POST", "/v1/models/ctr/labels/other:predict", request)
        assert status == 404 and "labels stable" in json.loads(body)["error"]
        states = json.loads(server.ask("GET", "/v1/models/ctr")[2])["model_version_status"]
        assert [(s["version"], s["state"]) for s in states] == [("3", "AVAILABLE"), ("2", "AVAILABLE"), ("1", "AVAILABLE")]
        states = json.loads(server.ask("GET", "/v1/models/ctr/labels/stable")[2])["model_version_status"]
        assert [s["version"] for s in states] == ["1"]
        assert json.loads(server.ask("GET", "/v2/models/ctr")[2])["versions"] == ["1", "2", "3"]
        page = server.ask("GET", "/metrics")[2].decode()
        assert 'ctrlab_version{model="ctr"} 3.0' in page and 'ctrlab_update{model="ctr",version="1"} 0.0' in page
        predict = warm_up.predict_request("ctr", tensors)
        body = predict[predict.index(b"serving_default") + len("serving_default") :]  # the inputs
        for spec, expected in (
            (message(4, b"stable"), 1),
            (message(2, wire.number(1, 2)), 2),
            (message(2, wire.number(1, 1)), 1),
            (b"", 3),
        ):
            answer = server.call("/tensorflow.serving.PredictionService/Predict", message(1, message(1, b"ctr") + spec) + body)
            assert wire.fields(wire.fields(wire.fields(answer)[2])[2])[1] == expected
        with pytest.raises(grpc.RpcError) as refused:
            spec = message(1, b"ctr") + message(4, b"other")
            server.call("/tensorflow.serving.PredictionService/Predict", message(1, spec) + body)
        assert refused.value.code() == grpc.StatusCode.NOT_FOUND
        set_label(folder, "stable", 2)
        for _ in range(100):
            if server.ask("POST", "/v1/models/ctr/labels/stable:predict", request)[1]["x-model-version"] == "2":
                break
            threading.Event().wait(0.1)
        else:
            raise AssertionError("the running server does not follow the label")
    finally:
        assert server.stop()[0] == 0


def test_labels_are_of_whole_versions(three, tmp_path):
    folder = three[0]
    for label, version, sentence in (
        ("a b", 1, "letters, digits"),
        ("stable", 9, "has 1, 2, 3, received 9"),
        ("other", None, r"has the labels \(none\); received other"),
    ):
        with pytest.raises(CtrlabError, match=sentence):
            set_label(folder, label, version)
    (folder / "2" / "saved_model.pb").write_bytes(b"odd")
    with pytest.raises(BadData):
        set_label(folder, "stable", 2)
    assert read_labels(folder) == {}
    runner = CliRunner()
    assert "stable: 1" in runner.invoke(app, ["label", str(folder), "stable", "1"]).output
    assert "No labels." in runner.invoke(app, ["label", str(folder), "stable", "--remove"]).output
    for arguments in (["stable"], ["stable", "1", "--remove"]):
        found = runner.invoke(app, ["label", str(folder), *arguments])
        assert found.exit_code == 1 and "name one of the two" in found.output
    assert np.all([path.name != FILE for path in folder.iterdir()]) or read_labels(folder) == {}


def test_what_is_no_label_and_no_version_is_a_sentence(three, tmp_path):
    folder = three[0]
    for label in (5, None, b"stable", ""):
        with pytest.raises(CtrlabError, match=r"letters, digits.*received"):
            set_label(folder, label, 1)
    for version in ("1", 1.0, [1], 0, -1, 1 << 70):
        with pytest.raises(CtrlabError, match=r"has 1, 2, 3, received"):
            set_label(folder, "stable", version)
    assert not (folder / FILE).exists()
    os.mkfifo(folder / FILE)
    with pytest.raises(BadData, match="Labels are JSON"):
        read_labels(folder)
    (folder / FILE).unlink()
    assert set_label(folder, "stable", np.int64(2)) == {"stable": 2} == read_labels(folder)
    (tmp_path / "a file").write_text("")
    for place in ("typo/ctr", "a file", "a file/ctr"):
        for version in (1, None):
            with pytest.raises(CtrlabError, match="A label is of a version in a model's folder"):
                set_label(tmp_path / place, "stable", version)
        found = CliRunner().invoke(app, ["label", str(tmp_path / place), "stable", "--remove"])
        assert found.exit_code == 1 and "A label is of a version" in found.output
    assert not (tmp_path / "typo").exists()

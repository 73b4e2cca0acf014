"""A server by a link that is switched; versions that are kept; and models that can be served only later."""

import json
import logging
import os
import shutil

import pytest
from served import wait_for
from small_exports import BODY, answers_as, export, put, right, stock

from ctrlab.server import models as server
from ctrlab.server import served as served_models
from ctrlab.server.served import ServedModel
from ctrlab.serving.processor import Code, Refused


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    place = tmp_path_factory.mktemp("exported")
    return [export(stock, seed, place / str(seed)) for seed in range(4)]


@pytest.fixture
def serve():
    opened = []

    def serve(folder, **options):
        opened.append(server.Models(folder, threads=1, **{"poll_seconds": 0.02} | options))
        return opened[-1]

    yield serve
    for models in opened:
        models.close()


@pytest.fixture
def quick(monkeypatch):
    for module in (server, served_models):
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.02)


def switch(link, to):
    """As `ln -sfn` does for careful people."""
    link.with_name("next").symlink_to(to)
    os.replace(link.with_name("next"), link)


def answers(models, name):
    return json.loads(models.submit(name, BODY, "json").result().data)["outputs"]


@pytest.mark.parametrize("several", [False, True])
def test_a_switched_link_is_followed_and_names_its_model(exported, tmp_path, serve, several):
    for n in (0, 1):
        put(exported[n], tmp_path / f"release-{n}" / ("ctr" if several else "") / str(2 - n))
    link = tmp_path / ("live" if several else "ctr")
    link.symlink_to("release-0")
    models = serve(link)
    assert list(models.served) == ["ctr"] and answers(models, "ctr") == pytest.approx(right(exported[0]), abs=1e-5)
    switch(link, "release-1")
    wait_for(lambda: models.served["ctr"].newest.info()["loads"] == 2)
    assert models.served["ctr"].newest.info()["version"] == 1
    assert answers(models, "ctr") == pytest.approx(right(exported[1]), abs=1e-5)
    shutil.rmtree(tmp_path / "release-0")
    put(exported[2], tmp_path / "release-1" / ("ctr" if several else "") / "5")
    wait_for(lambda: models.served["ctr"].newest.info()["version"] == 5)


def test_kept_versions_come_and_go_in_the_log_and_a_folder_without_manifest_is_none(exported, tmp_path, caplog):
    folder = tmp_path / "ctr"
    for n in (1, 4):
        put(exported[n % 4], folder / str(n))
    for n in (2, 3):
        (folder / str(n)).mkdir()
    caplog.set_level(logging.INFO, "ctrlab.server")
    served = ServedModel(folder, "ctr", keep=2, poll_seconds=0.02)
    try:
        assert list(served.infos()) == [1, 4]
        assert "Version 1 of ctr is served beside the newest" in caplog.messages
        caplog.clear()
        put(exported[2], folder / "5")
        wait_for(lambda: served.newest.info()["version"] == 5)
        served.look()
        assert list(served.infos()) == [4, 5]
        gone = "Version 1 of ctr is no longer served: it has no label, and is not one of the newest"
        assert caplog.messages == ["Version 5 of ctr is served", gone]
    finally:
        served.close()


def test_a_model_is_served_as_soon_as_it_has_a_version_that_can_be(exported, tmp_path, serve, quick, caplog):
    put(exported[0], tmp_path / "good" / "1")
    put(exported[1], tmp_path / "late" / "1")
    graph = tmp_path / "late" / "1" / "saved_model.pb"
    graph.write_bytes(graph.read_bytes()[:-9])
    models = serve(tmp_path)
    assert list(models.served) == ["good"]
    told = [message for message in caplog.messages if "Model late is not served" in message]
    with pytest.raises(Refused, match="has the models good"):
        models.submit("late", BODY, "json")
    shutil.copy(exported[1] / "saved_model.pb", graph)
    wait_for(lambda: "late" in models.served)
    assert answers(models, "late") == pytest.approx(right(exported[1]), abs=1e-5)
    assert len(told) == 1 and b'model="late"' in models.metrics.page()


def test_a_model_is_tried_again_after_an_error_of_the_moment(exported, tmp_path, serve, quick, caplog, monkeypatch):
    for n, name in enumerate(("full", "good")):
        put(exported[n], tmp_path / name / "1")
    times = []

    class Full(ServedModel):
        def __init__(self, folder, name, **options):
            times.extend(["full"] if name == "full" else [])
            if name == "full" and len(times) < 4:
                raise Refused(Code.UNAVAILABLE, "No space left on device.")
            super().__init__(folder, name, **options)

    monkeypatch.setattr(server, "ServedModel", Full)
    models = serve(tmp_path)
    assert list(models.served) == ["good"]
    wait_for(lambda: "full" in models.served)
    assert answers_as(models.served["full"].newest, exported[0])
    assert len(times) == 4 and sum("Model full is not served" in message for message in caplog.messages) == 1


def test_what_comes_beside_versions_is_no_reason_to_try_again(exported, tmp_path):
    """Such as the mark of another server that loads, an export under way, or an update."""
    put(exported[0], tmp_path / "ctr" / "1")
    before = server._files_of_versions(tmp_path / "ctr")
    (tmp_path / "ctr" / ".ctrlab-loading-1-ab-cd").touch()
    for folder in (".version-x", "1.updates"):
        (tmp_path / "ctr" / folder).mkdir()
        (tmp_path / "ctr" / folder / "1").touch()
    assert server._files_of_versions(tmp_path / "ctr") == before
    (tmp_path / "ctr" / "1" / "saved_model.pb").touch()
    assert server._files_of_versions(tmp_path / "ctr") != before


def test_a_look_that_fails_is_logged_and_the_next_one_comes(exported, tmp_path, serve, quick, caplog, monkeypatch):
    put(exported[0], tmp_path / "ctr" / "1")
    models = serve(tmp_path / "ctr")
    look, looks = models.served["ctr"].look, []

    def failing():
        looks.append(look())
        if len(looks) < 3:
            raise OSError(24, "Too many open files")

    monkeypatch.setattr(models.served["ctr"], "look", failing)
    wait_for(lambda: len(looks) > 4)
    assert caplog.messages.count("A look at the models failed") == 2


def test_a_version_with_a_label_is_tried_again_after_longer_and_longer_waits(exported, tmp_path, monkeypatch):
    put(exported[0], tmp_path / "ctr" / "1")
    put(exported[1], tmp_path / "ctr" / "2")
    now, tried = [0.0], []

    class Full(served_models.Processor):
        def __init__(self, folder, version=None, **options):
            if version is not None:
                tried.extend([now[0]] if version == 1 else [])
                raise Refused(Code.UNAVAILABLE, "No space left on device.")
            super().__init__(folder, **options)

    monkeypatch.setattr(served_models, "Processor", Full)
    monkeypatch.setattr(served_models.time, "monotonic", lambda: now[0])
    served = ServedModel(tmp_path / "ctr", "ctr", keep=2)
    try:
        while now[0] < 16:
            now[0] += 1.0
            served.look()
    finally:
        served.close()
    assert tried == [0.0, 1.0, 3.0, 7.0, 15.0]

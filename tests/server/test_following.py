"""What a server does and says when versions in its folder are deleted, replaced, or oddly named."""

import json
import logging
import shutil

import grpc
import pytest
from serve_command import TOKEN, Server
from served import wait_for
from small_exports import BODY, answers_as, export, put, stock

from ctrlab.errors import CtrlabError
from ctrlab.server import models as server
from ctrlab.server.metrics import UNLOADED, Metrics
from ctrlab.server.models import folders_in, states
from ctrlab.server.served import ServedModel
from ctrlab.serving import wire
from ctrlab.serving.manifest import NAME
from ctrlab.serving.processor import STAGES, Refused, Reply
from ctrlab.serving.version_labels import set_label


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    place = tmp_path_factory.mktemp("exported")
    return [export(stock, seed, place / str(seed)) for seed in range(4)]


@pytest.fixture
def folder(exported, tmp_path):
    """A model's folder with the versions 1, 2 and 3."""
    for n in (1, 2, 3):
        put(exported[n], tmp_path / "ctr" / str(n))
    return tmp_path / "ctr"


@pytest.fixture
def follow(folder, caplog):
    """Makes the served model; `look()` returns what it newly logged."""
    opened = []

    def follow(**options):
        served = ServedModel(folder, "ctr", poll_seconds=0.02, **options)
        opened.append(served)
        caplog.set_level(logging.INFO, "ctrlab.server")

        def look(until=lambda: True):
            caplog.clear()
            wait_for(until)
            for _ in range(3):  # once is enough
                served.look()
            return [record.getMessage() for record in caplog.records]

        look()
        return served, look

    yield follow
    for served in opened:
        served.close()


def all_states(served):
    return {number: (state.served, state.why) for number, state in states(served, None, "").items()}


def test_a_deleted_newest_version_is_followed_by_the_one_before(follow, folder, exported):
    served, look = follow()
    shutil.rmtree(folder / "3")
    assert look(lambda: served.newest.info()["version"] == 2) == ["Version 3 of ctr was deleted: version 2 is served"]
    assert all_states(served) == {2: (True, "")} and answers_as(served.newest, exported[2])


def test_kept_versions_follow_too(follow, folder):
    served, look = follow(keep=2)
    assert list(served.infos()) == [2, 3]
    shutil.rmtree(folder / "3")
    look(lambda: served.newest.info()["version"] == 2)
    assert list(served.infos()) == [1, 2] and served.numbers == {1, 2}
    shutil.rmtree(folder / "1")
    assert look() == ["Version 1 of ctr is no longer served: it was deleted, and has no label"]
    assert list(served.infos()) == [2]
    with pytest.raises(Refused, match=r"Version 2 of ctr is served; received a request for 3"):
        served.info(3)


def test_the_last_version_serves_on_and_that_is_said(follow, folder, exported):
    served, look = follow()
    for n in (1, 2, 3):
        shutil.rmtree(folder / str(n))
    [said] = look(lambda: served.newest.info()["gone"])
    assert "Version 3 of ctr serves on, but it is no longer in" in said and "Put it back, or export another" in said
    assert all_states(served) == {3: (True, said)} and answers_as(served.newest, exported[3])
    put(exported[3], folder / "3")
    look(lambda: not served.newest.info()["gone"])
    assert all_states(served) == {3: (True, "")}


def test_a_label_holds_a_deleted_version_and_that_is_said(follow, folder, exported):
    set_label(folder, "stable", 1)
    served, look = follow()
    shutil.rmtree(folder / "1")
    [said] = look(lambda: served.info(label="stable")["gone"])
    assert "Version 1 of ctr serves on" in said and all_states(served) == {3: (True, ""), 1: (True, said)}
    with served.use(label="stable") as processor:
        assert answers_as(processor, exported[1])
    set_label(folder, "stable", 2)
    assert look() == [
        "Version 2 of ctr is served beside the newest",
        "Version 1 of ctr is no longer served: it was deleted, and has no label",
    ]
    assert list(served.infos()) == [2, 3]


def test_replaced_files_are_served_and_that_is_said(follow, folder, exported):
    set_label(folder, "stable", 2)
    served, look = follow()
    for number in (3, 2):
        shutil.copytree(exported[0], folder / str(number), dirs_exist_ok=True)

        def replaced():
            with served.use(number) as processor:  # noqa: B023
                return answers_as(processor, exported[0]) and not processor.info()["refused"]

        assert f"The files of version {number} of ctr changed: it is loaded anew, and served" in look(replaced)


def test_replaced_files_that_can_not_be_loaded_are_refused_aloud(follow, folder, exported):
    served, look = follow()
    (folder / "3" / "saved_model.pb").write_bytes(b"odd")
    [said] = look(lambda: served.newest.info()["refused"])
    assert "have changed, and those from before serve on" in said and list(served.refused()) == [3]
    assert all_states(served) == {3: (True, said)} and answers_as(served.newest, exported[3])


def test_each_ignored_folder_has_its_reason_told_once(follow, folder, exported):
    served, look = follow()
    put(exported[0], folder / "000004")
    put(exported[0], folder / "notes")
    put(exported[0], folder / "0")
    put(exported[0], folder / "-5")
    put(exported[0], folder / "9223372036854775808")
    (folder / "6").mkdir()
    (folder / "7").write_text("")
    (folder / ".hidden").mkdir()
    (folder / "3.updates").mkdir()
    said = look()
    assert len(said) == 7, said
    for name, why in (("000004", "leading zeros"), ("notes", "its number"), ("0", "leading zeros"), ("6", NAME), ("7", "a file")):
        assert sum(f"{folder}/{name} " in each or f"{folder}/{name}," in each for each in said if why in each) == 1, (name, said)
    assert set(served.refused()) == {4, 6, 7}  # the others are older, or no numbers of versions
    assert all_states(served)[4][0] is False and "000004 is ignored: rename it" in all_states(served)[4][1]
    shutil.rmtree(folder / "notes")
    assert look() == []
    (folder / "notes").mkdir()
    assert len(look()) == 1


def test_folders_beside_the_models_have_their_reasons_told(folder, exported, caplog):
    put(exported[0], folder.parent / "late" / "0001")
    (folder.parent / "empty").mkdir()
    models = server.Models(folder.parent, poll_seconds=0)
    try:
        told = [record.getMessage() for record in caplog.records]
        assert sum("late has no version" in each and "0001 is ignored: rename it" in each for each in told) == 1
        assert sum("empty has no version" in each for each in told) == 1
        caplog.clear()
        put(exported[0], folder.parent / "new" / "1")
        wait_for(lambda: caplog.records)
        assert "new has come since this server was started" in caplog.records[0].getMessage()
    finally:
        models.close()


def test_a_folder_without_versions_says_what_was_ignored(exported, tmp_path):
    put(exported[0], tmp_path / "models" / "ctr" / "000001")
    for place in (tmp_path / "models", tmp_path / "models" / "ctr"):
        with pytest.raises(CtrlabError, match=r"is neither: .*000001 is ignored: rename it"):
            folders_in(place)


class Counted:
    """Stands in for a served model."""

    def __init__(self):
        self.numbers = frozenset()

    def infos(self):
        return dict.fromkeys(
            sorted(self.numbers),
            dict.fromkeys(("update", "step", "read_micros", "longest_pause_micros"), 0)
            | {"stopped": "", "gone": False, "loads": 1},
        )

    def refused(self):
        return {}


def test_latencies_of_unloaded_versions_end():
    served, lines = Counted(), []
    metrics = Metrics({"ctr": served}, lambda: 0)
    for version in range(1, 41):
        served.numbers = frozenset([1, version])  # 1 has a label
        for each in (1, version):
            metrics.answered("ctr", 0.001, 0.002, Reply(b"", each, 0, -1, (0.0,) * len(STAGES)))
        metrics.forget()
        lines.append(metrics.page().count(b"\n"))
    assert {*lines[1 + UNLOADED :]} == {lines[1 + UNLOADED]}
    page = metrics.page().decode()
    there = {version for version in range(1, 41) if f'ctrlab_request_seconds_count{{model="ctr",version="{version}"}}' in page}
    assert there == {1, 40, *range(40 - UNLOADED, 40)}
    assert 'ctrlab_request_seconds_count{model="ctr",version="1"} 41.0' in page
    metrics.answered("ctr", 0.001, 0.002, Reply(b"", 5, 0, -1, (0.0,) * len(STAGES)))  # it was inside
    for version in (41, 42, 43):
        served.numbers = frozenset([version])
        metrics.answered("ctr", 0.001, 0.002, Reply(b"", version, 0, -1, (0.0,) * len(STAGES)))
        metrics.forget()
    assert 'version="5"' not in metrics.page().decode()


def test_a_running_server_says_it_over_each_interface(folder, exported, tmp_path):
    (folder / "000009").mkdir()
    with (tmp_path / "log").open("w") as log:
        running = Server(folder, errors=log)
    try:

        def status():
            found = json.loads(running.ask("GET", "/v1/models/ctr")[2])["model_version_status"]
            return {
                each["version"]: (each["state"], each["status"]["error_code"], each["status"]["error_message"]) for each in found
            }

        def metric(name, **labels):
            return running.counted(f"ctrlab_{name}", model="ctr", **labels)

        assert status()["3"] == ("AVAILABLE", "OK", "") and status()["9"][:2] == ("END", "UNKNOWN")
        for scheme in ("Bearer", "bearer", "BEARER", "bEaReR"):
            for blank in (" ", "   "):
                assert running.ask("POST", "/v1/models/ctr:predict", BODY, {"Authorization": f"{scheme}{blank}{TOKEN}"})[0] == 200
        for odd in (
            f"Basic {TOKEN}",
            TOKEN,
            f"Bearer{TOKEN}",
            "bearer",
            "bearer ",
            f"bearer {TOKEN} {TOKEN}",
            f"bearer {TOKEN.upper()}",
        ):
            assert running.ask("GET", "/v2", headers={"Authorization": odd})[0] == 401
        with grpc.insecure_channel(f"127.0.0.1:{running.grpc_port}") as channel:
            status_of = channel.unary_unary("/tensorflow.serving.ModelService/GetModelStatus")
            asked = wire.field(1, wire.field(1, b"ctr"))
            assert b"leading zeros" in status_of(asked, metadata=[("authorization", f"bEaRER {TOKEN}")], timeout=60)
            with pytest.raises(grpc.RpcError) as refused:
                status_of(asked, metadata=[("authorization", f"Basic {TOKEN}")], timeout=60)
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
        shutil.rmtree(folder / "3")
        wait_for(lambda: running.ask("POST", "/v1/models/ctr:predict", BODY)[1]["x-model-version"] == "2")
        assert metric("version") == 2 and metric("version_loads_total") == 2
        for n in (1, 2):
            shutil.rmtree(folder / str(n))
        wait_for(lambda: "no longer in" in status()["2"][2])
        assert status()["2"][:2] == ("AVAILABLE", "OK") and metric("version_gone", version="2") == 1
        call = running.call("/tensorflow.serving.ModelService/GetModelStatus", wire.field(1, wire.field(1, b"ctr")))
        assert b"no longer in" in call
        put(exported[0], folder / "1")
        wait_for(lambda: metric("version") == 1)
    finally:
        assert running.stop()[0] == 0
    log = (tmp_path / "log").read_text()
    for said in (
        "Version 3 of ctr was deleted",
        "serves on, but it is no longer in",
        "000009 is ignored",
        "Version 2 of ctr was deleted",
    ):
        assert log.count(said) == 1, (said, log)

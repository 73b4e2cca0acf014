"""What clients of a fleet get: an instance's answer, a second try, an arm, or a refusal in one sentence."""

import http.client
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from fake_fleets import PREDICT, QUICK, Fakes, ask, behave, fleet_of, plan, states, until

from ctrlab.errors import CtrlabError
from ctrlab.fleet.instances.plan import arms_of, cpu_sets
from ctrlab.fleet.instances.split import Split


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Of two instances."""
    with fleet_of(plan(tmp_path_factory.mktemp("fleet"))) as found:
        yield found


def refusal(found):
    status, _, body = found
    return status, json.loads(body)["error"]


def test_an_answer_is_the_instance_s_with_its_name(fleet):
    status, headers, body = ask(fleet.port, "a body", X_Request_Id="mine")
    assert status == 200 and json.loads(body)["body"] == "a body"
    assert headers["x-model-version"] == "7" and headers["x-arm"] == "all" and headers["x-instance"] in ("all-1", "all-2")
    assert ask(fleet.port, method="GET", path="/v2/models/ctr")[0] == 200


def test_wrong_requests_are_refused_in_a_sentence(fleet):
    assert refusal(ask(fleet.port, token=""))[1].endswith("received none.")
    assert (
        refusal(ask(fleet.port, token="b"))[0] == 401
        and refusal(ask(fleet.port, path="/fleet", method="GET", token=""))[0] == 401
    )
    assert refusal(ask(fleet.port, path="/fleets", method="GET")) == (
        404,
        "This server has /v1/models/..., /v2/models/..., /v2/health/..., /fleet and /metrics; received /fleets.",
    )
    assert refusal(ask(fleet.port, method="PUT"))[0] == 405
    assert ask(fleet.port, path="/v2/health/ready", method="GET", token="")[0] == 200


def test_half_an_answer_is_none(tmp_path):
    """Whoever ends after half of one is asked no more; the request is sent once more, and only once: it may be the cause."""
    behave(tmp_path / "a", all={"half": "poison"}, s3={}, s4={})
    with fleet_of(plan(tmp_path / "a", instances=3)) as found:
        status, said = refusal(ask(found.port, "poison"))
        assert status == 502 and said.startswith("A request is sent 2 times at most; this one ended without an answer.")
        until(lambda: states(found) == ["ready"] * 3)
        assert sorted(each["starts"] for each in found.told().values()) == [1, 2, 2]
        assert ask(found.port, "good")[0] == 200
    behave(tmp_path / "b", s1={"half": "x" * 1000})
    with fleet_of(plan(tmp_path / "b")) as found:
        for _ in range(2):
            status, _, body = ask(found.port, "x" * 1000)
            assert status == 200 and json.loads(body) == json.loads(body) | {"start": 2, "body": "x" * 1000}


def test_a_request_waits_while_nobody_takes_any(tmp_path):
    behave(tmp_path / "a", s2={"start": 0.5})
    with fleet_of(plan(tmp_path / "a", instances=1)) as found, ThreadPoolExecutor(20) as pool:
        found.kill("all-1")
        got = [pool.submit(ask, found.port) for _ in range(20)]
        assert [each.result()[0] for each in got] == [200] * 20
        assert {json.loads(each.result()[2])["start"] for each in got} == {2}
        assert found.told()["all-1"]["inside"] == 0


def test_a_request_that_takes_too_long_is_late(tmp_path):
    behave(tmp_path / "a", all={"answer": 2.0})
    with fleet_of(plan(tmp_path / "a", seconds=0.3)) as found:
        assert refusal(ask(found.port)) == (504, "A request is answered within 0.3 s; this one was not.")
        assert [each["inside"] for each in found.told().values()] == [0, 0] and states(found) == ["ready", "ready"]


def test_users_keep_their_arm_whoever_comes_and_goes(tmp_path):
    folders = {arm: tmp_path / arm for arm in ("control", "new")}
    for folder in folders.values():
        behave(folder)
    percent, name = {"control": 70.0, "new": 30.0}, "ranking-7"
    made = Fakes(folders, percent=percent, experiment=name, token="a-token", patience=QUICK)
    users = [f"A{n}" for n in range(40)]
    arms = {user: Split(name, percent).arm(user) for user in users}
    assert set(arms.values()) == set(percent)

    def asked(found):
        return {user: ask(found.port, X_User_Id=user)[1]["x-arm"] for user in users}

    with fleet_of(made) as found:
        assert asked(found) == arms
        found.kill("new-1")
        assert asked(found) == arms, "who remains of an arm takes its users"
        until(lambda: set(states(found)) == {"ready"})
        assert asked(found) == arms
        status, said = refusal(ask(found.port))
        assert status == 400 and said.endswith("in the header X-User-Id; received none.")
        assert ask(found.port, method="GET", path="/v2/models/ctr")[1]["x-arm"] == "control"


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["a=m:50", "b"], "received 'b'"),
        (["a=m:50", "a=n:50"], "a name of its own"),
        (["a b=m:50", "c=m:50"], "received 'a b=m:50'"),
        (["a=m:x", "c=m:50"], "received 'a=m:x'"),
    ],
)
def test_arms_that_make_no_sense_are_refused(texts, says):
    with pytest.raises(CtrlabError, match=says):
        arms_of(texts)


def test_arms_are_folders_with_percents(tmp_path):
    assert arms_of(["models"]) == ({"all": tmp_path.__class__("models")}, {})
    folders, percent = arms_of(["a=models:90", "b=odd=name:10"])
    assert [str(folder) for folder in folders.values()] == ["models", "odd=name"] and percent == {"a": 90.0, "b": 10.0}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"arms": {"all": "nowhere"}}, "nowhere of all is none"),
        ({"experiment": "e"}, "has several arms"),
        ({"instances": 0}, "at least one instance"),
        ({"cpus": "0"}, "a set for each of the 2 instances"),
        ({"token": "a\n"}, "printable ASCII"),
        ({"token": "a\udcff"}, "printable ASCII"),
        ({"experiment": "\udcff"}, "can be printed"),
        ({"options": ["--batch-rows", "64", "--host", "::1"]}, "received --host"),
        ({"options": ["--grpc-port=9"]}, "received --grpc-port=9"),
        ({"percent": {"all": 50.0}}, "The only arm has all users; received 50 percent"),
        ({"cpus": "0;9999"}, "CPU 9999 is not"),
        ({"cpus": "0;x"}, "a set for each"),
        ({"cpus": "auto", "instances": 4000}, "received 4000 for"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(tmp_path, change, says):
    with pytest.raises(CtrlabError, match=says):
        Fakes(**{"arms": {"all": tmp_path}} | change)


def test_two_arms_need_an_experiment(tmp_path):
    folders = {"a": tmp_path, "b": tmp_path}
    with pytest.raises(CtrlabError, match="has a name"):
        Fakes(folders, percent={"a": 50, "b": 50})
    with pytest.raises(CtrlabError, match="add up to 100"):
        Fakes(folders, percent={"a": 50, "b": 60}, experiment="e")


def test_a_user_who_is_named_twice_is_in_no_arm(tmp_path):
    behave(tmp_path / "a")
    arms = {"a": tmp_path / "a", "b": tmp_path / "a"}
    with fleet_of(Fakes(arms, {"a": 50, "b": 50}, "e", instances=1, token="a-token", patience=QUICK)) as found:
        connection = http.client.HTTPConnection("127.0.0.1", found.port)
        connection.putrequest("POST", PREDICT)
        for name, value in {
            "X-User-Id": "u1",
            "X-User-ID": "u2",
            "Authorization": "Bearer a-token",
            "Content-Length": "0",
        }.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        assert answer.status == 400 and b"X-User-Id once" in answer.read()


def test_no_cpus_are_all():
    assert cpu_sets("", 3) == [frozenset()] * 3

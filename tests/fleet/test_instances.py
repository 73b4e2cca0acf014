"""The life of instances: each state, each change, and what can go wrong halfway."""

import json
import os
import re
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from fake_fleets import ask, behave, fleet_of, plan, states, until

from ctrlab.errors import CtrlabError
from ctrlab.fleet.instances import run
from ctrlab.fleet.instances.instance import Instance, State, least_inside
from ctrlab.fleet.instances.supervisor import Patience

READY = ["ready", "ready"]


def asked_in_thread(pool, found, body):
    """A request that is inside an instance when this returns; {name: inside} tells which."""
    before = sum(each["inside"] for each in found.told().values())
    asked = pool.submit(ask, found.port, body)
    until(lambda: sum(each["inside"] for each in found.told().values()) > before)
    return asked


def busy(found) -> str:
    return max(found.told().values(), key=lambda each: each["inside"])["name"]


def test_an_instance_takes_requests_once_it_has_answered_one_of_each_model(tmp_path):
    behave(tmp_path / "a", s2={"start": 0.5})
    with fleet_of(plan(tmp_path / "a")) as found:
        assert states(found) == READY and sorted(each["starts"] for each in found.told().values()) == [1, 1]
        assert (tmp_path / "a" / "answered-1").exists() and (tmp_path / "a" / "answered-2").exists()
        row = {each["name"]: each for each in json.loads((tmp_path / "a" / "warm.json").read_text())["inputs"]}
        assert row["item"]["data"] == [""] and row["history/values"]["data"] == [0]
        assert row["history/row_splits"] == {"name": "history/row_splits", "datatype": "INT64", "shape": [2], "data": [0, 1]}
        names = {ask(found.port, "x")[1]["x-instance"] for _ in range(4)}
        assert names == {"all-1", "all-2"}
    assert states(found) == ["stopped", "stopped"]


def test_a_request_of_a_killed_instance_is_answered_by_another_and_the_instance_comes_back(tmp_path):
    behave(tmp_path / "a", all={"answer": 0.5})
    with fleet_of(plan(tmp_path / "a")) as found, ThreadPoolExecutor(4) as pool:
        asked = [asked_in_thread(pool, found, f"{n}") for n in range(4)]
        before = found.told()["all-1"]["pid"]
        found.kill("all-1")
        got = [each.result() for each in asked]
        assert [(status, json.loads(body)["body"]) for status, _, body in got] == [(200, f"{n}") for n in range(4)]
        assert {headers["x-instance"] for _, headers, _ in got} == {"all-2"}
        until(lambda: states(found) == READY)
        after = found.told()["all-1"]
        assert after["pid"] != before and after["starts"] == 2 and "was ended by SIGKILL" in after["last_end"]
        assert "all-1" in {ask(found.port)[1]["x-instance"] for _ in range(4)}
        page = ask(found.port, path="/metrics", method="GET")[2].decode()
        assert 'second_tries_total{arm="all",instance="all-1",why="broken"} 2.0' in page
        assert 'ctrlab_fleet_starts_total{arm="all",instance="all-1"} 2.0' in page
        assert 'ctrlab_fleet_state{arm="all",instance="all-1",state="ready"} 1.0' in page


def test_one_that_is_killed_while_it_starts_is_started_again(tmp_path):
    behave(tmp_path / "a", s1={"start": 60})
    made = run.Fleet(plan(tmp_path / "a", instances=1))

    def kill():
        until(lambda: (tmp_path / "a" / "start-1").exists())
        os.kill(made.instances[0].pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    with run.running(made) as found:
        assert found.told()["all-1"]["starts"] == 2 and ask(found.port)[0] == 200
    thread.join()


def test_one_that_says_why_it_cannot_start_ends_the_fleet_with_its_words(tmp_path):
    behave(tmp_path / "a", s1={"dies": "Model ctr is not served: no weights."})
    with (
        pytest.raises(CtrlabError, match=r"begins once .* ended with exit code 1: Model ctr is not served: no weights\."),
        fleet_of(plan(tmp_path / "a")),
    ):
        pass


def test_one_that_is_never_warm_ends_the_fleet(tmp_path):
    behave(tmp_path / "a", s1={"cold": True})
    with (
        pytest.raises(CtrlabError, match=r"has not answered a request of each model after 1 s\."),
        fleet_of(plan(tmp_path / "a", patience=Patience(start=1.0, backoff=0.05))),
    ):
        pass


def test_one_with_another_token_ends_the_fleet(tmp_path):
    behave(tmp_path / "a", all={"other_token": True})
    with (
        pytest.raises(CtrlabError, match=r"takes the fleet's token; that on port [0-9]+ takes another"),
        fleet_of(plan(tmp_path / "a")),
    ):
        pass


def test_one_that_is_never_warm_after_a_crash_gets_no_requests_and_is_tried_less_and_less_often(tmp_path):
    behave(tmp_path / "a", s3={"dies": "x"}, s4={"dies": "x"}, s5={"dies": "x"}, s6={"dies": "x"}, s7={"cold": True})
    with fleet_of(plan(tmp_path / "a", patience=Patience(start=1.0, backoff=0.1, most_backoff=0.4))) as found:
        begun = time.monotonic()
        found.kill("all-1")
        until(lambda: (tmp_path / "a" / "start-6").exists())
        assert time.monotonic() - begun > 0.1 + 0.2 + 0.4 + 0.4
        assert {ask(found.port)[1]["x-instance"] for _ in range(10)} == {"all-2"}
        until(lambda: (tmp_path / "a" / "start-7").exists())
        assert {ask(found.port)[1]["x-instance"] for _ in range(10)} == {"all-2"}
        until(lambda: states(found) == READY)
        assert "has not answered a request of each model" in found.told()["all-1"]["last_end"]


def test_a_drained_instance_finishes_what_is_inside_and_takes_no_more(tmp_path):
    behave(tmp_path / "a", all={"answer": 1.0})
    with fleet_of(plan(tmp_path / "a")) as found, ThreadPoolExecutor(8) as pool:
        first = asked_in_thread(pool, found, "first")
        name = busy(found)
        instance = next(each for each in found.fleet.instances if each.name == name)
        found.do(_set(instance.leave))
        until(lambda: found.told()[name]["state"] == "draining")
        later = [pool.submit(ask, found.port, "later") for _ in range(3)]
        assert first.result()[1]["x-instance"] == name
        assert {each.result()[1]["x-instance"] for each in later}.isdisjoint({name})
        until(lambda: states(found) == READY)
        assert found.told()[name]["starts"] == 2 and found.told()[name]["last_end"] == ""


async def _set(event):
    event.set()


def test_requests_of_one_that_is_killed_while_it_drains_are_answered_by_another(tmp_path):
    behave(tmp_path / "a", all={"answer": 1.0})
    with fleet_of(plan(tmp_path / "a")) as found, ThreadPoolExecutor(2) as pool:
        asked = asked_in_thread(pool, found, "x")
        name = busy(found)
        found.do(_set(next(each for each in found.fleet.instances if each.name == name).leave))
        until(lambda: found.told()[name]["state"] == "draining")
        found.kill(name)
        status, headers, _ = asked.result()
        assert status == 200 and headers["x-instance"] != name
        until(lambda: states(found) == READY)


def test_a_replacement_of_all_keeps_all_but_one(tmp_path):
    behave(tmp_path / "a", all={"start": 0.2, "answer": 0.02})
    with fleet_of(plan(tmp_path / "a", instances=3)) as found, ThreadPoolExecutor(4) as pool:
        before = {each["pid"] for each in found.told().values()}
        ends, fewest, answers = threading.Event(), [3], []

        def watch():
            while not ends.is_set():
                fewest.append(states(found).count("ready"))
                time.sleep(0.002)

        def asks():
            while not ends.is_set():
                answers.append(ask(found.port)[0])

        work = [pool.submit(watch), pool.submit(asks), pool.submit(asks)]
        found.replace()
        ends.set()
        [each.result() for each in work]
        assert before.isdisjoint(each["pid"] for each in found.told().values())
        assert min(fewest) == 2 and set(answers) == {200} and len(answers) > 20
        assert all(each["starts"] == 2 for each in found.told().values())


def test_one_that_hangs_is_killed_and_its_requests_are_answered_by_another(tmp_path):
    behave(tmp_path / "a", s1={"hangs": True})
    with fleet_of(plan(tmp_path / "a", patience=Patience(answer=1.0, backoff=0.05))) as found, ThreadPoolExecutor(4) as pool:
        (tmp_path / "a" / "hang").touch()
        asked = [pool.submit(ask, found.port, "x") for _ in range(4)]
        assert [each.result()[0] for each in asked] == [200] * 4
        until(lambda: 2 in [each["starts"] for each in found.told().values()])
        assert any("has not said for 1 s that it is there" in each["last_end"] for each in found.told().values())


def test_one_that_hangs_while_it_drains_is_killed_and_its_requests_are_answered_by_another(tmp_path):
    behave(tmp_path / "a", all={"answer": 0.3})
    with fleet_of(plan(tmp_path / "a")) as found, ThreadPoolExecutor(1) as pool:
        asked = asked_in_thread(pool, found, "x")
        name = busy(found)
        found.kill(name, signal.SIGSTOP)
        found.do(leave(found, name))
        until(lambda: found.told()[name]["state"] == "draining")
        status, headers, _ = asked.result()
        assert status == 200 and headers["x-instance"] != name
        until(lambda: states(found) == READY)


async def leave(found, name):
    """In the fleet's loop."""
    next(each for each in found.fleet.instances if each.name == name).leave.set()


def test_one_that_leaves_by_itself_gets_no_more_and_is_started_again(tmp_path):
    with fleet_of(plan(tmp_path / "a")) as found:
        found.kill("all-1", signal.SIGTERM)
        got = [ask(found.port)[0] for _ in range(50)]
        assert got == [200] * 50
        until(lambda: found.told()["all-1"]["starts"] == 2 and states(found) == READY)


def test_the_port_of_a_fleet_is_taken(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CtrlabError, match=f"127.0.0.1:{port} can't be had"):
            run.serve(plan(tmp_path / "a"), "127.0.0.1", port, print)
    assert not (tmp_path / "a" / "start-1").exists()


def test_each_instance_has_its_cpus(tmp_path):
    cpus = sorted(os.sched_getaffinity(0))
    with fleet_of(plan(tmp_path / "a", instances=1, cpus=f"{cpus[-1]}")) as found:
        assert json.loads(ask(found.port)[2])["cpus"] == [cpus[-1]]


def test_what_instances_say_is_told_with_their_names(tmp_path, capfd):
    with fleet_of(plan(tmp_path / "a")):
        pass
    told = []

    def all_told():
        told.extend(json.loads(line) for line in capfd.readouterr().err.splitlines() if re.match(r"\{.*start [12]", line))
        return len(told) >= 2

    until(all_told)
    assert sorted(each["instance"] for each in told) == ["all-1", "all-2"]


def made(name, state=State.READY, inside=0, last=0):
    found = Instance(name, "all")
    found.state, found.inside, found.last = state, inside, last
    return found


def test_the_fewest_inside_gets_the_next_and_no_other_state_than_ready_does():
    for state in set(State) - {State.READY}:
        assert least_inside([made("a", state)], []) is None
    a, b, c = made("a", inside=2), made("b", inside=1, last=9), made("c", inside=1, last=3)
    assert least_inside([a, b, c], []) is c and least_inside([a, b, c], ["c"]) is b
    assert least_inside([a, b, c], ["b", "c"]) is a and least_inside([a], ["a"]) is a, "there is no other"
    assert least_inside([made("d", State.DRAINING), a], []) is a

"""The shipped HAProxy file: the arms of users, and what clients get while instances die, drain and hang."""

import json
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from proxied import FILE, PREDICT, Proxied, needs_haproxy, until

from ctrlab.load.client import Target, asked
from ctrlab.load.connection import Connection
from ctrlab.server.arms import Split

pytestmark = needs_haproxy
STUB = Path(__file__).with_name("stub_instance.py")
CONTROL = ("control-1", "control-2", "new-1")


def users_of(arm, count=1):
    split = Split("ranking-7", {"control": 90, "new": 10})
    return [user for user in map("A{}".format, range(100 * count)) if split.arm(user) == arm][:count]


@pytest.fixture
def fleet(tmp_path):
    with Proxied(tmp_path, lambda port: [sys.executable, STUB, str(port), tmp_path], CONTROL) as found:
        found.until_ready()
        yield found


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """A fleet in which nobody dies."""
    folder = tmp_path_factory.mktemp("calm")
    with Proxied(folder, lambda port: [sys.executable, STUB, str(port), folder]) as found:
        found.until_ready()
        yield found


def arm(answer):
    return answer.headers[b"x-arm"].decode()


def instance(answer):
    return answer.headers[b"x-instance"].decode()


def asked_of(folder, port):
    """The bodies of the requests for scores that an instance has got."""
    return [path.read_bytes() for path in folder.glob(f"request-{port}-*")]


def test_the_file_as_it_is_shipped_is_valid():
    found = subprocess.run(["haproxy", "-c", "-f", FILE], capture_output=True, text=True)
    assert found.returncode == 0 and "WARNING" not in found.stderr, found.stderr


def test_users_are_in_the_arms_that_the_package_says(calm):
    split = Split("ranking-7", {"control": 90, "new": 10})
    users = [f"A{n}" for n in range(300)] + ["", "a b", "a/b", "Smith, John", "Ä" * 40, "x" * 2000]
    with Connection(Target("127.0.0.1", calm.port)) as connection:
        for user in users[:300]:
            assert arm(connection.ask("POST", PREDICT, b"{}", X_User_Id=user)) == split.arm(user)
        for user in users[301:]:
            request = asked("POST", PREDICT, b"{}", X_User_Id="@").replace(b"@", user.encode())
            assert arm(connection.answer(request)) == split.arm(user)
    assert {split.arm(user) for user in users[:300]} == {"control", "new"}


def test_an_answer_is_the_instance_s_with_its_name(calm):
    got = [calm.ask(user=user) for user in users_of("control", 8)]
    assert {instance(each) for each in got} == {"control-1", "control-2"}
    assert {each.headers[b"x-model-version"] for each in got} == {b"7"}
    assert calm.ask(method="GET", path="/v2/models/ctr", user="").status == 200


def test_a_request_for_scores_names_one_user_and_a_model(calm):
    none = calm.ask(user="")
    assert none.status == 400 and "X-User-Id" in json.loads(none.body)["error"]
    twice = asked("POST", PREDICT, b"{}", X_User_Id="u1").replace(b"\r\n\r\n", b"\r\nX-User-ID: u2\r\n\r\n")
    with Connection(Target("127.0.0.1", calm.port)) as connection:
        assert connection.answer(twice).status == 400
    assert calm.ask(path="/fleets", method="GET").status == 404
    assert calm.ask(path="/metrics", method="GET").body.startswith(b"# HELP haproxy_")


def test_the_instance_with_the_fewest_inside_gets_the_next(calm):
    (user,) = users_of("control")
    sessions = re.compile(rb'haproxy_server_current_sessions\{[^}]*server="control-\d"[^}]*\} (\d)')

    def quick():
        """The instance that answers while the slow request alone is inside."""
        until(lambda: sorted(sessions.findall(calm.ask(method="GET", path="/metrics").body)) == [b"0", b"1"])
        return instance(calm.ask(user=user))

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(calm.ask, b'{"sleep": 4.0}', user=user)
        got = {quick() for _ in range(6)}
        assert not slow.done()
        assert got == {"control-1", "control-2"} - {instance(slow.result())}


def test_requests_of_a_killed_instance_are_answered_by_another_and_it_comes_back(fleet):
    (user,) = users_of("control")
    large = json.dumps({"sleep": 1.0, "rows": "x" * 400_000}).encode()
    with ThreadPoolExecutor(8) as pool:
        asks = [pool.submit(fleet.ask, large, user=user) for _ in range(8)]
        time.sleep(0.5)
        fleet.instances["control-1"].process.kill()
        got = [each.result() for each in asks]
        assert [(each.status, json.loads(each.body)["size"]) for each in got] == [(200, len(large))] * 8
        assert {instance(each) for each in got} == {"control-2"}
        assert {fleet.ask(user=user).status for _ in range(20)} == {200}
    until(lambda: instance(fleet.ask(user=user)) == "control-1")
    assert fleet.instances["control-1"].starts == 2


def test_a_request_that_ends_instances_is_sent_twice_and_no_third_time(fleet, tmp_path):
    (user,) = users_of("control")
    poison = b'{"die": true}'
    assert fleet.ask(poison, user=user).status in (502, 503)
    assert sum(asked_of(tmp_path, port).count(poison) for port in fleet.ports.values()) == 2
    until(lambda: fleet.ask(user=user).status == 200)


def test_one_that_says_it_is_not_ready_gets_no_more_and_answers_what_is_inside(fleet, tmp_path):
    (user,) = users_of("control")
    with ThreadPoolExecutor(4) as pool:
        asks = [pool.submit(fleet.ask, b'{"sleep": 2.5}', user=user) for _ in range(4)]
        time.sleep(0.3)
        (tmp_path / f"drains-{fleet.ports['control-1']}").touch()
        time.sleep(1.5)
        assert {instance(fleet.ask(user=user)) for _ in range(10)} == {"control-2"}
        got = [each.result() for each in asks]
        assert {each.status for each in got} == {200} and "control-1" in {instance(each) for each in got}
    (tmp_path / f"drains-{fleet.ports['control-1']}").unlink()
    until(lambda: instance(fleet.ask(user=user)) == "control-1")


def test_requests_of_one_that_hangs_are_answered_once_it_is_killed(fleet):
    """It is killed like by systemd's watchdog; meanwhile it gets no more requests."""
    (user,) = users_of("control")
    fleet.instances["control-1"].process.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor(4) as pool:
        asks = [pool.submit(fleet.ask, user=user) for _ in range(4)]
        time.sleep(2.5)
        assert {instance(fleet.ask(user=user)) for _ in range(10)} == {"control-2"}
        fleet.instances["control-1"].process.kill()
        assert {each.result().status for each in asks} == {200}


def test_an_arm_without_instances_is_not_ready_and_says_so(fleet):
    (user,) = users_of("new")
    fleet.instances["new-1"].close()
    until(lambda: fleet.ask(path="/v2/health/ready", method="GET").status == 503)
    assert fleet.ask(user=user).status == 503 and fleet.ask(user=users_of("control")[0]).status == 200
    assert fleet.ask(path="/v2/health/live", method="GET").status == 200

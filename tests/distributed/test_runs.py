"""Whole trainings of several workers: saves that any number of them takes up, refusals, workers that are lost."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from equal_steps import flat, joined, unflat
from local_workers import run_workers, start_workers

from ctrlab import data
from ctrlab.distributed.launch import free_ports
from ctrlab.errors import WorkerLost
from tests import forked

pytestmark = pytest.mark.timeout(900)  # several processes on the same cores
SPEC = {"model": "deepfm", "optimizations": "all", "profile": "tiny", "embedding": "variable"}


def run(count: int, **told) -> list[dict]:
    return [json.loads(said.splitlines()[-1]) for said in run_workers(count, "run_worker.py", json.dumps({"spec": SPEC} | told))]


@pytest.fixture(scope="module")
def whole() -> dict:
    """The state of a process alone, for its shapes."""
    from ctrlab.models import build
    from ctrlab.training import get_state, make_optimizer

    model = build("deepfm", optimizations="all", embedding="variable")
    return unflat(flat(get_state(model, make_optimizer(model))))


def state_of(folder, count: int, whole: dict) -> dict:
    states = []
    for index in range(count):
        with np.load(folder / f"{index}-of-{count}.npz") as arrays:
            states.append(unflat(dict(arrays)))
    return joined(states, whole)


def same(one: dict, other: dict) -> list[str]:
    """The names whose contents differ, rows of tables in any order."""
    odd = []
    for name, value in one.items():
        if isinstance(value, np.ndarray):
            odd += [] if np.array_equal(value, other[name]) else [name]
            continue
        for keys, fields in (("keys", ("values", "frequencies", "steps")), ("candidate_keys", ("candidate_counts",))):
            a, b = np.argsort(getattr(value, keys)), np.argsort(getattr(other[name], keys))
            arrays = [(getattr(value, f)[a], getattr(other[name], f)[b]) for f in (keys, *fields)]
            arrays += [(value.slots[s][a], other[name].slots[s][b]) for s in value.slots] if keys == "keys" else []
            odd += [] if all(np.array_equal(x, y) for x, y in arrays) else [f"{name} {keys}"]
    return odd


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """(folder of saves, folder with the state at the last): two workers, five steps, one full save and deltas."""
    saves, dump = tmp_path_factory.mktemp("saves"), tmp_path_factory.mktemp("state")
    saving = {"folder": str(saves / "run"), "every": 2, "full_every": 3}
    (first, second) = run(2, saving=saving, steps=6, dump=str(dump))
    assert first["position"] == second["position"] == 6
    assert first["losses"] == second["losses"]
    names = sorted(path.name for path in (saves / "run" / "worker-1-of-2").iterdir())
    assert names == [
        "latest.json",
        "step-000000002.safetensors",
        "step-000000004.delta.safetensors",
        "step-000000006.delta.safetensors",
    ]
    return saves / "run", dump


@pytest.mark.parametrize("count", [1, 3])
def test_any_number_of_workers_goes_on_from_a_save(count, saved, whole, tmp_path):
    folder, dump = saved
    copy = tmp_path / "run"
    subprocess.run(["cp", "-r", folder, copy], check=True)
    found = run(count, saving={"folder": str(copy), "resume": True}, steps=0, dump=str(tmp_path))
    assert [each["restored"] for each in found] == [6] * count
    expected, received = state_of(dump, 2, whole), state_of(tmp_path, count, whole)
    assert same(expected, received) == []
    # A restored state is compared, not two empty ones.
    tables = [value for value in received.values() if not isinstance(value, np.ndarray)]
    assert sum(len(table.keys) for table in tables) > 1_000 and all(table.slots for table in tables)
    steps = next(name for name, value in expected.items() if name.endswith("iteration") and value == 6)
    assert same(expected | {steps: np.array(7)}, received) == [steps]


def test_a_training_goes_on_with_other_workers_and_ends_with_the_same_rows(saved, whole, tmp_path):
    """Two workers, then three: together they take each row once."""
    copy = tmp_path / "run"
    subprocess.run(["cp", "-r", saved[0], copy], check=True)
    found = run(3, saving={"folder": str(copy), "resume": True, "every": 1}, dump=str(tmp_path), evaluate=True)
    assert {each["position"] for each in found} == {found[0]["position"]}
    assert len({json.dumps(each["auc"]) for each in found}) == 1
    manifest = json.loads((copy / "workers.json").read_text())["saves"]
    assert manifest[0]["history"] == [[2, 6], [3, found[0]["position"] - 6]]
    assert sorted(path.name for path in copy.iterdir()) == ["worker-0-of-3", "worker-1-of-3", "worker-2-of-3", "workers.json"]
    # Without admission, each row of the training gives each of its columns one count.
    state = state_of(tmp_path, 3, whole)
    counts = {int(value.frequencies.sum()) for value in state.values() if not isinstance(value, np.ndarray)}
    files = data.prepare("food_delivery", profile="tiny")
    assert files.rows in counts
    assert {each["auc"]["rows"] for each in found} == {files.test_rows}


def test_an_earlier_save_of_other_workers_stays_until_a_new_one_is_whole(saved, tmp_path):
    """Two workers saved, then three; two that go on have nothing but the save of three to begin with, and their own behind it."""
    copy = tmp_path / "run"
    subprocess.run(["cp", "-r", saved[0], copy], check=True)
    goes_on = {"folder": str(copy), "resume": True}
    [newer] = {each["position"] for each in run(3, saving=goes_on | {"every": 1}, steps=1)}
    assert newer == 7
    assert {each["restored"] for each in run(2, saving=goes_on, steps=0)} == {7}
    [last] = (copy / "worker-1-of-3").glob("*.safetensors")
    last.write_bytes(last.read_bytes()[:-100])
    assert {each["restored"] for each in run(2, saving=goes_on, steps=0)} == {6}


def test_a_training_goes_on_from_the_save_before_a_damaged_one_and_says_so(saved, tmp_path):
    copy = tmp_path / "run"
    subprocess.run(["cp", "-r", saved[0], copy], check=True)
    newest = copy / "worker-1-of-2" / "step-000000006.delta.safetensors"
    content = bytearray(newest.read_bytes())
    content[-5] ^= 1
    newest.write_bytes(content)
    for each in run(2, saving={"folder": str(copy), "resume": True, "every": 1}, steps=1):
        assert (each["restored"], each["position"]) == (4, 5)
        [problem] = each["passed over"]
        assert f"{newest} is damaged" in problem
        assert each["lost"] == "Went back from step 6 to step 4, and from batch 6 to batch 4: what was trained between is lost."
    assert [save["position"] for save in json.loads((copy / "workers.json").read_text())["saves"]] == [5, 4]
    assert not newest.exists()


# Refusals, on the worker that the user watches.


def refused(count: int, told: dict, addresses=None) -> list[str]:
    started = start_workers(count, "run_worker.py", json.dumps({"spec": SPEC} | told), addresses=addresses)
    said = [worker.communicate(timeout=200)[1] for worker in started]
    assert all(worker.returncode == 1 for worker in started)
    return [errors.strip().splitlines()[-1] for errors in said]


def test_workers_with_other_options_are_refused():
    first, second = refused(2, {"of_worker": {"1": {"seed": 7}}})
    assert first == (
        "Error: All workers train the same; seed is 7 on worker 1 and 2021 on worker 0: start them by the same command."
    )
    assert "seed is 2021 on worker 0 and 7 on worker 1" in second


def test_folders_that_not_all_workers_see_are_refused(tmp_path):
    for name in ("one", "other"):  # of an earlier training each
        (tmp_path / name / "worker-0-of-2").mkdir(parents=True)
    told = {"saving": {"folder": str(tmp_path / "one")}, "of_worker": {"1": {"folder": str(tmp_path / "other")}}}
    first, second = refused(2, told)
    # The first worker says so itself, unless the other was quicker.
    says = "on worker 1 is another than on worker 0: name one on a disk that they share."
    assert any(f"{tmp_path / name} {says}" in first for name in ("one", "other"))
    assert f"{tmp_path / 'other'} on worker 1 is another than on worker 0" in second
    assert not list(tmp_path.rglob(".seen*"))


def test_a_worker_that_never_comes():
    addresses = tuple(f"127.0.0.1:{port}" for port in free_ports(2))
    told = json.dumps({"spec": SPEC, "start_seconds": 6})
    first, second = start_workers(2, "run_worker.py", told, addresses=addresses)
    second.kill()
    errors = first.communicate(timeout=100)[1]
    assert first.returncode == -signal.SIGKILL
    assert f"All workers come within 6 seconds; worker 0 waited in vain for one of {addresses[1]}" in errors


def test_a_port_that_is_taken():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        addresses = (f"127.0.0.1:{taken.getsockname()[1]}", f"127.0.0.1:{free_ports(1)[0]}")
        first, second = start_workers(2, "run_worker.py", json.dumps({"spec": SPEC, "start_seconds": 6}), addresses=addresses)
        errors = first.communicate(timeout=100)[1]
        second.kill()
    assert first.returncode == 1
    assert f"Worker 0 can't have its port, {addresses[0]}" in errors


def test_folders_that_are_not_of_this_training(saved, tmp_path):
    copy = tmp_path / "run"
    subprocess.run(["cp", "-r", saved[0], copy], check=True)
    assert "holds checkpoints of an earlier run, up to step 6; resume it" in refused(1, {"saving": {"folder": str(copy)}})[0]
    (copy / "workers.json").unlink()
    assert "workers.json, which is missing" in refused(1, {"saving": {"folder": str(copy), "resume": True}})[0]
    assert len(list((copy / "worker-0-of-2").iterdir())) == 4
    alone = [sys.executable, "-m", "ctrlab", "train", "deepfm", "--profile", "tiny", "--checkpoint", saved[0], "--resume"]
    ran = forked.run(alone, capture_output=True, text=True)
    assert ran.returncode == 1 and "holds checkpoints of several workers" in ran.stderr


# Workers that are lost. The command starts them, ends with one sentence, and leaves nobody behind.


def command(count: int, folder, *more) -> list:
    options = ["--profile", "tiny", "--optimizations", "all", "--embedding", "variable", "--batch-size", "64", "--every", "10"]
    train = [sys.executable, "-m", "ctrlab", "train", "dlrm", *options, "--full-every", "4", "--checkpoint", folder, "--resume"]
    return [*train, "--workers", str(count), *more]


def of_workers(launcher: forked.Popen) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(launcher.pid)], capture_output=True, text=True).stdout.split()
    return [int(pid) for pid in found]


def position(folder) -> int:
    """The position of the last complete save; -1 before the first."""
    try:
        saves = json.loads((folder / "workers.json").read_text())["saves"]
    except FileNotFoundError:
        return -1
    return saves[0]["position"] if saves else -1


def wait_for(what, seconds=120):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=[pytest.mark.long, pytest.mark.timeout(0)])])
def test_a_killed_worker_ends_the_others_and_nothing_committed_is_lost(kills, tmp_path):
    folder, rng, count, before = tmp_path / "run", np.random.default_rng(4), 2, 0
    for kill in range(kills):
        quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        launcher = forked.Popen(command(count, folder, "--epochs", "1000"), **quiet)
        wait_for(lambda before=before: position(folder) > before, 200)  # it has gone on
        time.sleep(rng.uniform(0, 0.5))
        running = of_workers(launcher)
        assert running, launcher.communicate()
        victim = int(rng.choice(running))
        committed, killed = position(folder), time.monotonic()
        os.kill(victim, signal.SIGKILL)
        out, errors = launcher.communicate(timeout=60)
        assert time.monotonic() - killed < 30
        assert launcher.returncode == WorkerLost.exit_code
        assert "was ended by SIGKILL, and the others with it" in errors.splitlines()[-1], errors
        before = position(folder)  # a save may have been committed meanwhile
        assert before >= committed
        if kill:
            assert "Resumed after" in out
        count = 2 + (kill + 1) % 2
    assert before > 0


def test_a_worker_that_is_killed_while_it_connects_leaves_nobody_behind():
    """The process that watches the wait holds the terminal of the worker."""
    started = start_workers(2, "run_worker.py", json.dumps({"spec": SPEC}))
    started[1].kill()
    wait_for(lambda: subprocess.run(["pgrep", "-P", str(started[0].pid)], capture_output=True).stdout)
    started[0].kill()
    for worker in started:
        worker.communicate(timeout=20)  # until nobody has its stderr


def test_workers_end_when_the_command_is_told_to(tmp_path):
    launcher = forked.Popen(command(2, tmp_path / "run", "--epochs", "1000"), stderr=subprocess.PIPE, text=True)
    wait_for(lambda: position(tmp_path / "run") > 0)
    left = of_workers(launcher)
    launcher.terminate()
    launcher.communicate(timeout=60)
    assert launcher.returncode == 128 + signal.SIGTERM
    assert not any(os.path.exists(f"/proc/{pid}") for pid in left)


@pytest.mark.parametrize("struck", [0, 1])
@pytest.mark.parametrize(
    ("by", "says"),
    [
        (signal.SIGTERM, r"Worker {} was ended by SIGTERM, and the others with it: start them again"),
        (signal.SIGSTOP, r"Worker {} \(127\.0\.0\.1:\d+\) is not answering"),
    ],
    ids=["somebody ends", "hangs"],
)
def test_a_worker_is_named_that(by, says, struck, tmp_path):
    launcher = forked.Popen(command(2, tmp_path / "run", "--epochs", "1000"), stderr=subprocess.PIPE, text=True)
    wait_for(lambda: position(tmp_path / "run") > 0)
    os.kill(of_workers(launcher)[struck], by)
    errors = launcher.communicate(timeout=120)[1]
    assert launcher.returncode == WorkerLost.exit_code
    assert re.search(says.format(struck), errors), errors


def test_saves_of_workers_are_merged_for_an_export(saved, whole, tmp_path):
    from ctrlab.distributed.manifest import merge_workers
    from ctrlab.models import build
    from ctrlab.training import get_state, make_optimizer, restore

    path = merge_workers(saved[0], tmp_path)
    assert path.name == "step-000000006.safetensors"
    model = build("deepfm", optimizations="all", embedding="variable")
    optimizer = make_optimizer(model)
    assert restore(tmp_path, model, optimizer).position == 6
    assert same(state_of(saved[1], 2, whole), unflat(flat(get_state(model, optimizer)))) == []
    resumed = [sys.executable, "-m", "ctrlab", "train", "deepfm", "--optimizations", "all", "--embedding", "variable"]
    ran = forked.run([*resumed, "--profile", "tiny", "--checkpoint", tmp_path, "--resume"], capture_output=True, text=True)
    assert ran.returncode == 1 and "dealt out to workers" in ran.stderr

"""Trainings and conversions in the processes of Ray, which are killed: nothing changes. Nobody else can reach the processes."""

import contextlib
import filecmp
import functools
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from ctrlab import data
from ctrlab.cli.data import convert as convert_command
from ctrlab.cli.workers import ray as ray_command
from ctrlab.data import ray_cluster
from ctrlab.data.convert import convert
from ctrlab.data.on_ray import ray_engine
from ctrlab.data.raw import intake
from ctrlab.distributed import ray_workers
from ctrlab.distributed.ray_workers import on_ray
from ctrlab.embedding.formats.tensor_file import read_tensors
from ctrlab.errors import BadData, CtrlabError, WorkerLost

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ctrlab[ray]'")

pytestmark = pytest.mark.timeout(600)  # several processes on the same cores


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """One for all tests: what they call works with it, as with any that a program has joined."""
    with ray_cluster.cluster(2) as cpus:
        assert cpus == 2
        yield


def descendants() -> dict[int, str]:
    """{pid: command line} of the processes below this one."""
    listed = subprocess.run(["ps", "-ww", "-eo", "pid=,ppid=,args="], capture_output=True, text=True).stdout.splitlines()
    rows = [(int(pid), int(parent), args) for pid, parent, args in (line.split(None, 2) for line in listed)]
    found, parents = {}, {os.getpid()}
    while parents:
        below = {pid: args for pid, parent, args in rows if parent in parents}
        found, parents = found | below, set(below)
    return found


def listening(pids) -> set[str]:
    """The addresses on which processes wait for connections, in the kernel's hexadecimal."""
    sockets = set()
    for pid in pids:
        for file in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                sockets |= set(re.findall(r"socket:\[(\d+)\]", os.readlink(file)))
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {line[1].partition(":")[0] for line in lines if line[3] == "0A" and line[9] in sockets}


# The cluster.


def test_nobody_else_can_reach_the_processes():
    assert ray.get(ray.remote(lambda: os.getpid()).remote()) != os.getpid()
    pids = descendants()
    assert any("gcs_server" in args for args in pids.values()) and any("raylet" in args for args in pids.values())
    assert listening([os.getpid(), *pids]) == {"0100007F", "0000000000000000FFFF00000100007F"}  # both are 127.0.0.1
    assert "--modules-to-load=UsageStatsHead --disable-frontend" in " ".join(pids.values())
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    # A stranger on this machine.
    ask = f"from ray._raylet import GcsClient; GcsClient(address={ray.get_runtime_context().gcs_address!r})"
    strange = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    refused = subprocess.run([sys.executable, "-c", ask], env=strange, capture_output=True, text=True)
    assert refused.returncode == 1 and "InvalidAuthToken" in refused.stderr


def test_without_ray_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for start in (lambda: on_ray(2, print), lambda: convert_command.command("criteo", [], Path("x.parquet"), "ray")):
        with pytest.raises(CtrlabError, match=r"^Ray is in the extra `ray`; ray is not installed: pip install"):
            start()


def test_a_cluster_that_is_not_there():
    ask = "from ctrlab.data.ray_cluster import cluster\nwith cluster(): pass"
    nowhere = os.environ | {"RAY_ADDRESS": "127.0.0.1:1"}
    refused = subprocess.run([sys.executable, "-c", ask], env=nowhere, capture_output=True, text=True, timeout=60)
    said = "Ray can't be reached or started: RAY_ADDRESS is 127.0.0.1:1: Connection refused."
    assert refused.returncode == 1 and said in refused.stderr


# Data.

SMALL = 400
"""Lines of a block, so that small files have many."""


@pytest.fixture
def criteo(tmp_path) -> Path:
    """A file of 20 blocks; every hundredth line is none of Criteo's."""
    path = tmp_path / "train.csv"
    data.write(data.generate("criteo", 20 * SMALL, 1), data.schema("criteo"), path)
    lines = path.read_text().splitlines()
    lines[::100] = [f"broken {i}" for i in range(len(lines[::100]))]
    lines[50::100] = [line.replace("\t", "\tx", 1) for line in lines[50::100]]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(autouse=True)
def small_and_quick(monkeypatch):
    monkeypatch.setattr(intake, "BLOCK_LINES", SMALL)
    monkeypatch.setattr(ray_workers, "PRINT_SECONDS", 0)


def one_by_one(name, source, folder):
    """The result of the converter without an engine for a file."""
    out = folder / "one.parquet"
    return out, convert(name, source, out)


def same_files(one: Path, other: Path) -> bool:
    return all(filecmp.cmp(f"{one}{end}", f"{other}{end}", shallow=False) for end in ("", ".rejects.tsv"))


def dying(engine, block: int, mark: Path, times=1):
    """The engine; the process that works on this block is killed, so many times."""

    def deadly(function, numbered):
        number, item = numbered
        if number == block and len(list(mark.parent.glob(f"{mark.name}*"))) < times:
            Path(f"{mark}{os.getpid()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return function(item)

    return lambda function, items: engine(functools.partial(deadly, function), enumerate(items))


def test_a_conversion_whose_process_is_killed_gives_the_same_files(criteo, tmp_path):
    one, counts = one_by_one("criteo", criteo, tmp_path)
    assert (counts.read, counts.rejected) == (20 * SMALL, 2 * 20 * SMALL // 100)
    with ray_engine() as engine:
        found = convert("criteo", criteo, tmp_path / "ray.parquet", engine=dying(engine, 7, tmp_path / "killed-"))
    assert found == counts and same_files(one, tmp_path / "ray.parquet")
    assert len(list(tmp_path.glob("killed-*"))) == 1


def test_a_block_that_kills_each_process_ends_the_conversion(criteo, tmp_path):
    with ray_engine() as engine, pytest.raises(CtrlabError, match=r"^3 processes of Ray ended while they worked on one block"):
        convert("criteo", criteo, tmp_path / "ray.parquet", engine=dying(engine, 3, tmp_path / "killed-", times=9))
    assert len(list(tmp_path.glob("killed-*"))) == 3 and not (tmp_path / "ray.parquet").exists()


def test_negatives_are_drawn_as_by_one_process(tmp_path):
    """The file is read twice, and what the first reading found goes to all processes."""
    source, own = tmp_path / "local_train_splitByUser", data.schema("amazon_reviews").columns[:6]
    rows = next(data.generate("amazon_reviews", 10 * SMALL, 2)).to_pylist()
    texts = [["\x02".join(v) if isinstance(v := row[c.name], list) else str(v) for c in own] for row in rows]
    texts[700][4] += "\x02more"
    source.write_text("".join("\t".join(["1" if t[0] == "1.0" else "0", *t[1:]]) + "\n" for t in texts))
    one, counts = one_by_one("amazon_reviews", source, tmp_path)
    assert counts.rejected == 1
    with ray_engine() as engine:
        assert convert("amazon_reviews", source, tmp_path / "ray.parquet", engine=engine) == counts
    assert same_files(one, tmp_path / "ray.parquet")


def test_a_truncated_file_says_the_same_after_the_same_blocks(criteo, tmp_path):
    packed = tmp_path / "train.txt.gz"
    packed.write_bytes(gzip.compress(criteo.read_bytes())[:-5_000])
    taken = {"one": [], "ray": []}

    def noting(engine, name):
        return lambda function, items: (taken[name].append(1) or result for result in engine(function, items))

    with pytest.raises(BadData) as one:
        convert("criteo", packed, tmp_path / "one.parquet", engine=noting(map, "one"))
    with ray_engine() as engine, pytest.raises(BadData) as other:
        convert("criteo", packed, tmp_path / "ray.parquet", engine=noting(engine, "ray"))
    assert str(one.value) == str(other.value) and "truncated" in str(one.value)
    assert len(taken["one"]) == len(taken["ray"]) > 9


def test_generated_rows_and_their_ceiling_are_those_of_one_process(tmp_path):
    with ray_engine() as engine:
        made = list(data.generate("food_delivery", 40_000, 3, dying(engine, 1, tmp_path / "killed-")))
        assert data.ceiling("food_delivery", 40_000, 3, engine) == data.ceiling("food_delivery", 40_000, 3)
    expected = list(data.generate("food_delivery", 40_000, 3))
    assert len(made) == len(expected) == 3 and all(a.equals(b) for a, b in zip(made, expected))
    assert len(list(tmp_path.glob("killed-*"))) == 1


# Trainings.


def position(folder: Path) -> int:
    """The position of the last complete save; -1 before the first."""
    with contextlib.suppress(FileNotFoundError, IndexError):
        return json.loads((folder / "workers.json").read_text())["saves"][0]["position"]
    return -1


def last_save(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of two workers' last save, by worker and name."""
    assert position(folder) == 8
    found = {}
    for worker in ("worker-0-of-2", "worker-1-of-2"):
        arrays, _ = read_tensors(folder / worker / "step-000000008.safetensors")
        found |= {f"{worker} {name}": array for name, array in arrays.items()}
    return found


def test_a_training_whose_worker_is_killed_ends_as_one_that_nothing_happens_to(tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("CTRLAB_PROFILE", "tiny")
    quiet, killed, victims = tmp_path / "quiet", tmp_path / "killed", []

    def work():
        from ctrlab.distributed import join
        from ctrlab.training import Run, Saving, Spec

        os.environ["CTRLAB_PROFILE"] = "tiny"
        with Run(Spec("deepfm", "all", saving=Saving(quiet, every=2, resume=True)), join()) as run:
            run.train()
            return run.evaluate().rows

    assert on_ray(2, work) == data.prepare("food_delivery", profile="tiny").test_rows

    def kill():
        while position(killed) < 4:
            time.sleep(0.02)
        victims.append([pid for pid, args in descendants().items() if args.startswith("ray::") and "orker" in args][-1])
        os.kill(victims[0], signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    train = ["train", "deepfm", "--optimizations", "all", "--profile", "tiny", "--checkpoint", str(killed), "--every", "2"]
    ray_command.command(train, 2)
    assert len(victims) == 1 and "All workers start again, 1 of at most 3 times." in caplog.text
    one, other = last_save(quiet), last_save(killed)
    assert one.keys() == other.keys()
    # Python's own generators go on from whatever the process did before.
    learnt = [name for name in one if "generators/" not in name]
    assert len(learnt) > 20 and [name for name in learnt if not np.array_equal(one[name], other[name])] == []


def test_a_worker_s_mistake_ends_all_at_once(tmp_path):
    def work():
        from ctrlab.distributed import given_place

        (tmp_path / f"{time.time()}").touch()
        if given_place().index == 1:
            while len(list(tmp_path.iterdir())) < 2:
                time.sleep(0.02)
            raise BadData("Row 7 is none.")
        time.sleep(500)

    with pytest.raises(BadData, match=r"^Row 7 is none\.$"):
        on_ray(2, work)
    assert len(list(tmp_path.iterdir())) == 2


def test_workers_that_are_lost_each_time():
    def work():
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(WorkerLost, match=r"^Workers were lost in each of 2 tries; the last time: Worker 0 has ended"):
        on_ray(1, work, retries=1)


def test_more_workers_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(ray_workers, "PLACE_SECONDS", 0.5)
    with pytest.raises(CtrlabError, match=r"^Ray has no room for 2 workers of 3 CPUs each"):
        on_ray(2, print, cpus=3)

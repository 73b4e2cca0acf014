"""Prepared data: made once, made again when what it is made from changes, whole or not at all."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ctrlab import data
from ctrlab.data import cache
from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.profiles import Profile

SMALL = Profile("small", rows=1_000, step_share=0.0, min_steps=1, repetitions=1, seeds=1)


@pytest.fixture
def made(tmp_path, monkeypatch):
    """An empty cache, and a list of what was generated into it."""
    calls = []

    def generate(name, rows, seed, engine):
        calls.append((name, rows))
        return data.generate(name, rows, seed, engine)

    monkeypatch.setenv("CTRLAB_CACHE", str(tmp_path))
    monkeypatch.setattr(cache.sets, "generate", generate)
    return calls


def test_train_and_test_are_one_stream(made):
    files = data.prepare("taobao", profile=SMALL)
    assert (files.rows, files.test_rows) == (1_000, 200)
    expected = pa.concat_tables(data.generate("taobao", 1_200)).unify_dictionaries().to_pylist()
    assert [row for path in (*files.train, *files.test) for row in pq.read_table(path).to_pylist()] == expected
    assert 0.5 < files.ceiling["clk"] < 1.0
    assert sum(len(labels) for _, labels in files.read_train(64, drop_remainder=True)) == 960
    assert sum(len(labels) for _, labels in files.read_test(64)) == 200


def test_made_once(made, tmp_path):
    first = data.prepare("criteo", profile=SMALL, format="csv")
    changed = {path: path.stat().st_mtime_ns for path in (*first.train, *first.test)}
    assert data.prepare("criteo", profile=SMALL, format="csv") == first
    assert data.prepare("criteo", profile=SMALL).format == "parquet"
    assert made == [("criteo", 1_200)]
    assert {path: path.stat().st_mtime_ns for path in changed} == changed


@pytest.mark.parametrize("damage", ["other recipe", "no manifest", "broken manifest"])
def test_made_again(made, damage):
    [train] = data.prepare("criteo", profile=SMALL).train
    manifest = train.parent / cache.MANIFEST
    recipe = json.loads(manifest.read_text())
    if damage == "other recipe":
        manifest.write_text(json.dumps(recipe | {"recipe": recipe["recipe"] | {"code": "before"}}))
    elif damage == "no manifest":
        manifest.unlink()
    else:
        manifest.write_text("{")
    train.write_bytes(b"stale")
    [train] = data.prepare("criteo", profile=SMALL).train
    assert pq.read_metadata(train).num_rows == 1_000
    assert len(made) == 2
    assert json.loads(manifest.read_text()) == recipe


def test_two_at_once(made):
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: data.prepare("criteo", profile=SMALL), range(2))
    assert first == second
    assert len(made) == 1


MAKER = """
import sys, time
from ctrlab import data
from ctrlab.data import cache
from ctrlab.profiles import Profile

generate, note, seconds = cache.sets.generate, sys.argv[1], float(sys.argv[2])

def noted(*arguments):
    with open(note, "a") as file:
        print("made", file=file, flush=True)
    time.sleep(seconds)  # so that the other one comes meanwhile
    return generate(*arguments)

cache.sets.generate = noted
profile = Profile("small", rows=1_000, step_share=0.0, min_steps=1, repetitions=1, seeds=1)
print(data.prepare("criteo", profile=profile, progress=False).rows)
"""


def test_two_processes_at_once(made, tmp_path):
    command = [sys.executable, "-c", MAKER, str(tmp_path / "note"), "1"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=120)[0] for process in both] == ["1000\n", "1000\n"]
    assert (tmp_path / "note").read_text() == "made\n"


def test_a_process_that_is_killed_holds_nothing(made, tmp_path):
    note = tmp_path / "note"
    with subprocess.Popen([sys.executable, "-c", MAKER, str(note), "600"]) as process:
        while not note.exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert data.prepare("criteo", profile=SMALL).rows == 1_000
    assert made == [("criteo", 1_200)]


def test_nothing_is_left_of_a_broken_run(made, monkeypatch, tmp_path):
    def breaks(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cache.sets, "ceiling", breaks)
    with pytest.raises(KeyboardInterrupt):
        data.prepare("criteo", profile=SMALL)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_real(made, real_data, monkeypatch):
    monkeypatch.setenv("CTRLAB_REAL_DATA", str(real_data))
    files = data.prepare("taobao", source="real", format="csv", progress=False)
    assert files.rows + files.test_rows == 304
    assert files.ceiling is None
    batches = list(files.read_train(64, lists="text"))
    assert sum(len(labels) for _, labels in batches) == files.rows
    assert not made


def test_bad_requests(made, monkeypatch, tmp_path):
    for wrong in ({"name": "kriteo"}, {"profile": "tinny"}, {"format": "parket"}, {"source": "reel"}):
        with pytest.raises(UnknownName, match="Did you mean"):
            data.prepare(**({"name": "criteo"} | wrong))
    monkeypatch.delenv("CTRLAB_REAL_DATA", raising=False)
    with pytest.raises(CtrlabError, match="CTRLAB_REAL_DATA"):
        data.prepare("criteo", source="real")
    monkeypatch.setenv("CTRLAB_REAL_DATA", str(tmp_path / "none"))
    with pytest.raises(CtrlabError, match="must name a folder"):
        data.prepare("criteo", source="real")


def test_real_rows_that_were_rejected_are_told(tmp_path, monkeypatch):
    """How many, and where they lie: by what is made, found again, and made of it."""
    raw, cache = tmp_path / "raw", tmp_path / "cache"
    (raw / "criteo_kaggle").mkdir(parents=True)
    good = "\t".join(["1", *["3"] * 13, *["ab"] * 26])
    (raw / "criteo_kaggle" / "train.tsv").write_text("\n".join([good] * 30 + ["no row", good.replace("1", "7", 1)]) + "\n")
    monkeypatch.setenv("CTRLAB_REAL_DATA", str(raw))
    monkeypatch.setenv("CTRLAB_CACHE", str(cache))
    for format in ("parquet", "csv", "parquet"):
        files = data.prepare("criteo", source="real", format=format, progress=False)
        assert files.rejected == 2 and files.rows + files.test_rows == 30
        assert [line.split("\t")[1] for line in files.rejects.read_text().splitlines()] == ["31", "32"]
    (raw / "criteo_kaggle" / "train.tsv").write_text("\n".join([good] * 31) + "\n")
    files = data.prepare("criteo", source="real", progress=False)
    assert (files.rejected, files.rejects) == (0, None)


def test_a_raw_file_of_the_same_size_and_time_is_another(tmp_path, monkeypatch):
    raw = tmp_path / "raw" / "criteo_kaggle" / "train.tsv"
    raw.parent.mkdir(parents=True)
    monkeypatch.setenv("CTRLAB_REAL_DATA", str(tmp_path / "raw"))
    monkeypatch.setenv("CTRLAB_CACHE", str(tmp_path / "cache"))
    for number in ("3", "5"):
        raw.write_text("\n".join(["\t".join(["1", *[number] * 13, *["ab"] * 26])] * 30) + "\n")
        os.utime(raw, ns=(10**18, 10**18))
        [train] = data.prepare("criteo", source="real", progress=False).train
        assert {row["I1"] for row in pq.read_table(train).to_pylist()} == {float(number)}

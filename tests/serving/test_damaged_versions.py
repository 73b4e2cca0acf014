"""A damaged version is never served, and ends no process: its files are checked before TensorFlow reads them."""

import os
import random
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from served import wait_for
from small_exports import bundled, export, put, stock

from ctrlab import serving
from ctrlab.server.served import ServedModel
from ctrlab.serving.manifest import NAME
from ctrlab.serving.processor import Code, Processor, Refused
from ctrlab.serving.versions import ignored

KINDS = {"stock": (stock, True), "stock without rows": (stock, False), "bundled": (bundled, True)}


@pytest.fixture(scope="module", params=KINDS)
def exported(request, tmp_path_factory):
    """Two exports of a kind, which answer differently."""
    made, with_rows = KINDS[request.param]
    place = tmp_path_factory.mktemp("exported")
    if with_rows:
        return [export(made, seed, place / str(seed)) for seed in range(2)]
    return [serving.export_model(made(seed), place / str(seed)) for seed in range(2)]


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def is_refused(folder, damaged):
    """Whether a processor of this version alone gives its reason, which names the damaged file."""
    with pytest.raises(Refused) as refused:
        Processor(folder.parent, version=int(folder.name), poll_seconds=0)
    return refused.value.code == Code.FAILED and str(damaged) in str(refused.value)


def flips(exported, folder, seed, count):
    """Flips bits of every file at random places, one after the other."""
    put(exported[0], folder)
    drawn = random.Random(seed)
    for path in files_of(folder):
        data = path.read_bytes()
        for _ in range(count):
            at, bit = drawn.randrange(len(data)), 1 << drawn.randrange(8)
            path.write_bytes(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
            assert is_refused(folder, path), (path, at, bit)
        path.write_bytes(data)


def test_a_flipped_bit_of_any_file_is_refused(exported, tmp_path):
    flips(exported, tmp_path / "1", 0, 20)
    with Processor(tmp_path, poll_seconds=0):  # as it was exported, again
        pass


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_thousands_of_flipped_bits_are_refused(exported, tmp_path, seed):
    flips(exported, tmp_path / "1", seed, 500)


def test_a_cut_file_or_one_of_another_version_is_refused(exported, tmp_path):
    put(exported[0], tmp_path / "1")
    for path in files_of(tmp_path / "1"):
        data = path.read_bytes()
        other = exported[1] / path.relative_to(tmp_path / "1")
        for damaged in (
            b"",
            data[: len(data) // 2],
            data[:-1],
            data + b"\n",
            *([other.read_bytes()] if path.name != NAME else []),
        ):
            if damaged != data:
                path.write_bytes(damaged)
                assert is_refused(tmp_path / "1", path)
        path.unlink()
        if path.name != NAME:  # a folder without a manifest is no version
            assert is_refused(tmp_path / "1", path)
        path.write_bytes(data)
    more = tmp_path / "1" / "assets.extra" / "more"
    more.parent.mkdir(exist_ok=True)
    more.touch()
    assert is_refused(tmp_path / "1", more)
    more.unlink()
    shutil.copy(exported[1] / NAME, tmp_path / "1" / NAME)
    assert is_refused(tmp_path / "1", tmp_path / "1")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_manifest_that_is_no_file_is_not_opened(exported, tmp_path, make):
    for number, version in enumerate(exported, 1):
        put(version, tmp_path / str(number))
    odd = tmp_path / "2" / NAME
    odd.unlink()
    make(odd)
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(Processor, tmp_path, poll_seconds=0)
        try:
            processor = made.result(20)
        except TimeoutError:
            os.close(os.open(odd, os.O_WRONLY))  # whoever waits to read it reads its end
            raise
    with processor:
        assert processor.info()["version"] == 1
    assert f"{tmp_path / '2'} has none yet" in ignored(tmp_path)["2"]


def test_the_good_version_serves_on_and_the_server_says_why(exported, tmp_path):
    """A torn copy of a newer version beside it: its first half is there, and then zeros."""
    folder = tmp_path / "ctr"
    put(exported[0], folder / "1")
    served = ServedModel(folder, "ctr", poll_seconds=0.02)
    try:
        shutil.copytree(exported[1], tmp_path / "2")
        graph = tmp_path / "2" / "saved_model.pb"
        half = graph.stat().st_size // 2
        graph.write_bytes(graph.read_bytes()[:half] + bytes(graph.stat().st_size - half))
        (tmp_path / "2").rename(folder / "2")
        wait_for(lambda: served.refused())
        assert "2/saved_model.pb is not what was exported" in served.refused()[2]
        assert served.newest.info()["version"] == 1
        shutil.copy(exported[1] / "saved_model.pb", folder / "2" / "saved_model.pb")
        wait_for(lambda: served.newest.info()["version"] == 2)
        assert not served.refused()
    finally:
        served.close()

"""A version is what its files are, not its number. Files that change under a number are another version; a deleted one goes."""

import contextlib
import os
import shutil
import time

import numpy as np
import pytest
from served import seal, wait_for
from small_exports import answers_as, bundled, export, put, right, stock

from ctrlab.serving import wire
from ctrlab.serving.manifest import NAME
from ctrlab.serving.processor import Processor, Refused


@pytest.fixture(scope="module", params=[bundled, stock])
def exported(request, tmp_path_factory):
    """Four exports of models that answer differently, each outside of any model's folder."""
    place = tmp_path_factory.mktemp("exported")
    return [export(request.param, seed, place / str(seed)) for seed in range(4)]


@contextlib.contextmanager
def serving_first(exported, folder, **options):
    put(exported[0], folder / "1")
    with Processor(folder, poll_seconds=0.02, **options) as processor:
        assert answers_as(processor, exported[0])
        yield processor


def test_the_fixture_tells_versions_apart(exported):
    found = [right(export) for export in exported]
    assert all(np.abs(a - b).max() > 1e-3 for n, a in enumerate(found) for b in found[:n])


@pytest.mark.parametrize("pinned", [{}, {"version": 1}])
def test_a_folder_that_is_deleted_and_written_again_is_another_version(exported, tmp_path, pinned):
    with serving_first(exported, tmp_path, **pinned) as processor:
        shutil.rmtree(tmp_path / "1")
        put(exported[1], tmp_path / "1")
        wait_for(lambda: processor.info()["loads"] == 2)
        assert answers_as(processor, exported[1]) and processor.info()["version"] == 1 and not processor.info()["refused"]


def test_a_swapped_link_is_another_version(exported, tmp_path):
    (tmp_path / "1").symlink_to(exported[0])
    with Processor(tmp_path, poll_seconds=0.02) as processor:
        (tmp_path / "next").symlink_to(exported[1])
        (tmp_path / "next").replace(tmp_path / "1")
        wait_for(lambda: processor.info()["loads"] == 2)
        assert answers_as(processor, exported[1])


def same_sizes_and_times(place):
    """Pads the graph by a field that nobody knows, and gives all files one time, as some tools that copy do."""
    graph = place / "saved_model.pb"
    graph.write_bytes(graph.read_bytes() + wire.field(999, b" " * (8_000 - graph.stat().st_size)))
    seal(place)
    for path in [place, *place.rglob("*")]:
        os.utime(path, ns=(10**18, 10**18))


def test_files_of_the_same_sizes_and_times_are_told_apart(exported, tmp_path):
    """As after a clock was set back."""
    for n in (0, 1):
        shutil.copytree(exported[n], tmp_path / "from" / str(n))
        same_sizes_and_times(tmp_path / "from" / str(n))
    first, second = (tmp_path / "from" / str(n) / "saved_model.pb" for n in (0, 1))
    assert first.stat().st_size == second.stat().st_size
    folder = tmp_path / "ctr"
    shutil.copytree(tmp_path / "from" / "0", folder / "1")
    with Processor(folder, poll_seconds=0.02) as processor:
        for path in sorted(path for path in (tmp_path / "from" / "1").rglob("*") if path.is_file()):  # into the same inodes
            to = folder / "1" / path.relative_to(tmp_path / "from" / "1")
            to.write_bytes(path.read_bytes())
            os.utime(to, ns=(10**18, 10**18))
        wait_for(lambda: answers_as(processor, exported[1]))


def test_a_half_written_replacement_is_refused_aloud_until_it_is_whole(exported, tmp_path):
    with serving_first(exported, tmp_path) as processor:
        graph = tmp_path / "1" / "saved_model.pb"
        graph.write_bytes(graph.read_bytes()[:-100])
        wait_for(lambda: "1" in processor.info()["refused"])
        assert "have changed, and those from before serve on" in processor.info()["refused"]["1"]
        assert answers_as(processor, exported[0]) and processor.info()["loads"] == 1
        shutil.copytree(exported[1], tmp_path / "1", dirs_exist_ok=True)
        wait_for(lambda: processor.info()["loads"] == 2 and not processor.info()["refused"])
        assert answers_as(processor, exported[1])


def test_files_of_two_exports_are_never_one_version(exported, tmp_path):
    """The manifest and the graph of another export, with all else of the first."""
    with serving_first(exported, tmp_path) as processor:
        for name in ("saved_model.pb", NAME):
            shutil.copy(exported[1] / name, tmp_path / "1" / name)
        wait_for(lambda: "1" in processor.info()["refused"])
        assert answers_as(processor, exported[0])


def test_a_touched_version_is_loaded_anew_and_answers_the_same(exported, tmp_path):
    with serving_first(exported, tmp_path) as processor:
        (tmp_path / "1" / "saved_model.pb").chmod(0o600)
        wait_for(lambda: processor.info()["loads"] == 2)
        assert answers_as(processor, exported[0])
        time.sleep(0.1)
        assert processor.info()["loads"] == 2


def test_replacements_in_a_row_end_with_the_last(exported, tmp_path):
    """Also where a version changes while it is loaded."""
    with serving_first(exported, tmp_path) as processor:
        for n in [1, 2, 3] * 4:
            shutil.rmtree(tmp_path / "1")
            put(exported[n], tmp_path / "1")
            time.sleep(0.003 * n)
        wait_for(lambda: answers_as(processor, exported[3]))
        assert not processor.info()["refused"] and not processor.info()["gone"]


def test_the_newest_of_those_that_are_left_takes_the_place_of_a_deleted_one(exported, tmp_path):
    for n in (1, 2, 3):
        put(exported[n - 1], tmp_path / str(n))
    with Processor(tmp_path, poll_seconds=0.02, most_slowdown=1e-9) as processor:  # which is asked of newer ones only
        for n in (3, 2):
            assert answers_as(processor, exported[n - 1]) and processor.info()["version"] == n
            shutil.rmtree(tmp_path / str(n))
            wait_for(lambda: processor.info()["version"] == n - 1)  # noqa: B023
        assert answers_as(processor, exported[0]) and processor.info()["loads"] == 3
        shutil.rmtree(tmp_path / "1")
        wait_for(lambda: processor.info()["gone"])
        assert answers_as(processor, exported[0]) and processor.info()["version"] == 1
        (tmp_path / "000002").mkdir()
        time.sleep(0.1)
        assert processor.info()["gone"]
        put(exported[0], tmp_path / "1")
        wait_for(lambda: not processor.info()["gone"])
        assert answers_as(processor, exported[0])


def test_a_wiped_folder_begins_anew(exported, tmp_path):
    folder = tmp_path / "ctr"
    for n in (1, 7):
        put(exported[n % 2], folder / str(n))
    with Processor(folder, poll_seconds=0.02) as processor:
        folder.rename(tmp_path / "away")
        wait_for(lambda: processor.info()["gone"])
        assert (processor.info()["version"], processor.info()["loads"]) == (7, 1)
        put(exported[2], folder / "1")
        wait_for(lambda: processor.info()["version"] == 1)
        assert answers_as(processor, exported[2]) and not processor.info()["gone"]


def test_what_is_left_is_loaded_or_the_deleted_one_serves_on(exported, tmp_path):
    put(exported[0], tmp_path / "1")
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"odd")
    put(exported[1], tmp_path / "2")
    with Processor(tmp_path, poll_seconds=0.02) as processor:
        shutil.rmtree(tmp_path / "2")
        wait_for(lambda: processor.info()["gone"] and processor.info()["refused"])
        assert answers_as(processor, exported[1]) and list(processor.info()["refused"]) == ["1"]
        put(exported[2], tmp_path / "3")
        wait_for(lambda: processor.info()["version"] == 3)
        wait_for(lambda: not processor.info()["refused"])
        assert not processor.info()["gone"]


def test_reasons_for_versions_that_went_go_too(exported, tmp_path):
    """Else they would grow for ever."""
    with serving_first(exported, tmp_path) as processor:
        for n in range(2, 8):
            (tmp_path / str(n)).mkdir()
            (tmp_path / str(n) / NAME).write_text("{}")
            wait_for(lambda: list(processor.info()["refused"]) == [str(n)])  # noqa: B023
            shutil.rmtree(tmp_path / str(n))
        wait_for(lambda: not processor.info()["refused"])
        (tmp_path / "8").mkdir()
        (tmp_path / "8" / NAME).write_text("{}")
        put(exported[1], tmp_path / "9")
        wait_for(lambda: processor.info()["version"] == 9)
        wait_for(lambda: not processor.info()["refused"])


def test_a_pinned_version_that_was_deleted_serves_on(exported, tmp_path):
    put(exported[0], tmp_path / "1")
    put(exported[1], tmp_path / "2")
    with Processor(tmp_path, poll_seconds=0.02, version=2) as processor:
        shutil.rmtree(tmp_path / "2")
        wait_for(lambda: processor.info()["gone"])
        assert answers_as(processor, exported[1])


def test_a_name_with_zeros_in_front_is_explained(exported, tmp_path):
    put(exported[0], tmp_path / "000001")
    with pytest.raises(Refused, match=r"there is none.* without leading zeros, and 000001 is none: rename it"):
        Processor(tmp_path)

"""A version at which a process ended while it loaded it is not tried at once by the next one."""

import fcntl
import hashlib
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest
from small_exports import answers_as, export, put, stock

from ctrlab.serving.manifest import NAME
from ctrlab.serving.processor import Code, Processor, Refused
from tests import forked

ENDS = """
import os, signal, sys, threading
from pathlib import Path

from ctrlab.serving.processor import Processor

if len(sys.argv) > 3 and sys.argv[3] != "stopped" and os.getuid() == 0:
    os.setuid(65534)


def ends():
    while not any(list(Path(place).glob(".ctrlab-loading-2-*")) for place in sys.argv[2:]):
        pass
    os.kill(os.getpid(), signal.SIGTERM if sys.argv[3:] == ["stopped"] else signal.SIGKILL)


threading.Thread(target=ends, daemon=True).start()
Processor(sys.argv[1], version=2, poll_seconds=0)
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    place = tmp_path_factory.mktemp("exported")
    return [export(stock, seed, place / str(seed)) for seed in range(2)]


@pytest.fixture
def folder(exported, tmp_path):
    put(exported[0], tmp_path / "ctr" / "1")
    put(exported[1], tmp_path / "ctr" / "2")
    return tmp_path / "ctr"


def marks(folder):
    return sorted(folder.glob(".ctrlab-loading-*"))


def left(folder, ages):
    """Marks of processes that ended so many seconds ago while they loaded version 2."""
    seal = hashlib.sha256((folder / "2" / NAME).read_bytes()).hexdigest()[:16]
    for n, age in enumerate(ages):
        mark = folder / f".ctrlab-loading-2-{seal}-{n:06}"
        mark.touch()
        os.utime(mark, (time.time() - age,) * 2)


def serves(folder):
    with Processor(folder, poll_seconds=0) as processor:
        return processor.info()["version"]


def test_a_process_that_ends_leaves_its_mark_and_the_next_one_serves_the_version_before(folder, exported):
    ran = forked.run([sys.executable, "-c", ENDS, folder, folder], timeout=120)
    assert ran.returncode == -signal.SIGKILL and len(marks(folder)) == 1
    with Processor(folder, poll_seconds=0) as processor:
        assert answers_as(processor, exported[0])
        assert "A process ended while it loaded version" in processor.info()["refused"]["2"]
        assert str(marks(folder)[0]) in processor.info()["refused"]["2"]
    with pytest.raises(Refused, match="is tried again at") as refused:
        Processor(folder, version=2)
    assert refused.value.code == Code.UNAVAILABLE
    shutil.rmtree(folder / "2")
    put(exported[0], folder / "2")  # another version of the same number
    assert serves(folder) == 2


def test_a_process_that_is_stopped_leaves_none(folder):
    ran = forked.run([sys.executable, "-c", ENDS, folder, folder, "stopped"], timeout=120)
    assert ran.returncode == -signal.SIGTERM and not marks(folder)
    assert serves(folder) == 2


@pytest.mark.parametrize(
    "ages, version",
    [([50], 1), ([70], 2), ([150, 70], 1), ([800, 70], 1), ([10_000, 50, 30], 1), ([200_000, 90_000], 2), ([-99], 2)],
)
def test_it_is_tried_again_after_longer_and_longer_waits(folder, ages, version):
    left(folder, ages)
    assert serves(folder) == version
    assert bool(marks(folder)) == (version == 1)  # one that was loaded loses its marks


def test_the_mark_of_a_process_that_goes_on_is_none(folder):
    left(folder, [5])
    with marks(folder)[0].open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert serves(folder) == 2
        assert marks(folder)


def test_loading_leaves_nothing(folder):
    assert serves(folder) == 2 and not list(folder.glob(".*"))


def test_in_a_folder_that_can_only_be_read_the_mark_is_in_the_folder_for_temporary_files(folder, tmp_path, monkeypatch):
    temporary = Path(tempfile.mkdtemp())  # others can't read pytest's
    temporary.chmod(0o777)
    try:
        shutil.copytree(folder, temporary / "ctr")
        (temporary / "ctr").chmod(0o555)
        place = temporary / "tmp"
        place.mkdir()
        place.chmod(0o777)
        environment = os.environ | {"TMPDIR": str(place)}
        command = [sys.executable, "-c", ENDS, temporary / "ctr", temporary / "ctr", place]
        assert forked.run(command, env=environment, timeout=120).returncode == -signal.SIGKILL
        [mark] = marks(place)
        assert not marks(temporary / "ctr")
        os.chown(mark, os.getuid(), -1)
        monkeypatch.setenv("TMPDIR", str(place))
        assert serves(temporary / "ctr") == 1
    finally:
        (temporary / "ctr").chmod(0o755)
        shutil.rmtree(temporary)

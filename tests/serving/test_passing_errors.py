"""An error of the moment, such as too many open files, is waited out: nothing counts as gone, and what came is taken after it."""

import contextlib
import os
import resource
import time

import pytest
from served import wait_for
from small_exports import answers_as, export, put, stock
from test_numbers_once import training  # noqa: F401 (a fixture)

from ctrlab.serving.processor import Processor


@contextlib.contextmanager
def no_more_files():
    """While it lasts, this process can open no file."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull) as lowest:
        free = lowest.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            os.open(os.devnull, os.O_RDONLY)
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_an_update_that_comes_while_no_file_can_be_opened_is_applied_after_it(training, tmp_path):  # noqa: F811
    training.step()
    update = tmp_path / "ctr" / "1.updates" / "2"
    update.rename(tmp_path / "2")
    with Processor(tmp_path / "ctr", poll_seconds=0.02) as processor:
        wait_for(lambda: processor.info()["update"] == 1)
        with no_more_files():
            (tmp_path / "2").rename(update)
            time.sleep(0.3)
            info = processor.info()
            assert (info["update"], info["gone"], info["refused"]) == (1, False, {})
        wait_for(lambda: processor.info()["update"] == 2)
        assert training.agrees(processor) and processor.info()["stopped"] == ""


def test_a_version_that_comes_while_no_file_can_be_opened_is_served_after_it(tmp_path):
    exported = [export(stock, seed, tmp_path / str(seed)) for seed in range(2)]
    put(exported[0], tmp_path / "ctr" / "1")
    put(exported[1], tmp_path / "waits")
    with Processor(tmp_path / "ctr", poll_seconds=0.02) as processor:
        with no_more_files():
            (tmp_path / "waits").rename(tmp_path / "ctr" / "2")
            time.sleep(0.3)
            info = processor.info()
            assert (info["version"], info["gone"], info["loads"]) == (1, False, 1)
        wait_for(lambda: processor.info()["version"] == 2)
        assert answers_as(processor, exported[1]) and not processor.info()["refused"]


def test_a_version_that_can_not_be_read_stops_neither_a_start_nor_updates(training, tmp_path):  # noqa: F811
    (tmp_path / "ctr" / "2").mkdir()
    (tmp_path / "ctr" / "2" / "ctrlab.json").symlink_to("ctrlab.json")  # a loop: who looks can't say that it is gone
    (tmp_path / "ctr" / "3").symlink_to("3")
    with Processor(tmp_path / "ctr", poll_seconds=0.02) as processor:
        info = processor.info()
        assert info["version"] == 1 and {*info["refused"]} == {"2", "3"}
        training.step()
        wait_for(lambda: processor.info()["update"] == info["update"] + 1)
        assert training.agrees(processor)

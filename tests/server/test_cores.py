"""Cores of a model's own: who gets which, what can't be, and that requests run there."""

import os
import threading

import pytest
from test_server_models import Slow

from ctrlab.errors import CtrlabError
from ctrlab.server import models as server
from ctrlab.server import served
from ctrlab.server.cores import OTHERS, allocated, group
from ctrlab.serving.processor import Reply


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (["a=0"], {"a": {0}, OTHERS: {1, 2, 3, 9}}),
        (["a=1-3,9"], {"a": {1, 2, 3, 9}, OTHERS: {0}}),
        (["b=0-1", "a=9"], {"b": {0, 1}, "a": {9}, OTHERS: {2, 3}}),
        (["a=0", "b=1", "c=2-3,9"], {"a": {0}, "b": {1}, "c": {2, 3, 9}}),
    ],
)
def test_a_model_has_what_was_asked_and_the_others_the_rest(asked, found):
    assert allocated(asked, ["a", "b", "c"], {0, 1, 2, 3, 9}) == found


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (["d=0"], "and the server has a, b, c"),
        (["a"], "CPUs are numbers and ranges"),
        (["a="], "CPUs are numbers and ranges"),
        (["a=3-1"], "CPUs are numbers and ranges"),
        (["a=0-1-2"], "CPUs are numbers and ranges"),
        (["a=-1"], "CPUs are numbers and ranges"),
        (["a=0;1"], "CPUs are numbers and ranges"),
        (["a=99999"], "CPUs are numbers and ranges"),
        (["a=0", "a=1"], "twice"),
        (["a=0-2", "b=2"], "and 3 are left, not 2"),
        (["a=8"], "0, 1, 2, 3 are left, not 8"),
        (["a=0-3"], "leaves the other models a CPU"),
    ],
)
def test_what_cannot_be_is_refused(asked, sentence):
    with pytest.raises(CtrlabError, match=sentence):
        allocated(asked, ["a", "b", "c"], {0, 1, 2, 3})


def test_a_member_is_one_cpu():
    assert group("ctr", {4, 2})["group"] == {
        "name": "cores of ctr",
        "members": 2,
        "cpus": ["2", "4"],
        "policy": "least_in_flight",
    }


def test_a_busy_model_leaves_the_other_its_cores(monkeypatch, tmp_path):
    """Each model has as many threads as CPUs, and its own configuration."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("two models need two CPUs")
    given = {}

    class Noted(Slow):
        def __init__(self, folder, name, **configuration):
            super().__init__(folder, name)
            given[name] = configuration

        def process(self, request, format, header):
            assert threading.current_thread().name.startswith("ctrlab-serve")
            return super().process(request, format, header) and Reply(request, 1, 0, -1)

    monkeypatch.setattr(served, "Processor", Noted)
    monkeypatch.setattr(server, "folders_in", lambda folder: dict.fromkeys(("ctr", "new", "old"), folder))
    models = server.Models(tmp_path, most_waiting=0, dedicated=[f"ctr={cpus[0]}"])
    ctr, new, old = (models.served[name].newest for name in ("ctr", "new", "old"))
    assert given["ctr"]["group"]["cpus"] == [str(cpus[0])]
    assert given["new"] == given["old"] and given["new"]["group"]["cpus"] == [str(cpu) for cpu in cpus[1:]]
    new.goes.set(), old.goes.set()
    inside = models.submit("ctr", b"a", "json")
    with pytest.raises(server.Overloaded, match="1 requests"):
        models.submit("ctr", b"a", "json")
    assert [models.submit(name, b"b", "json").result(60).data for name in ("new", "old")] == [b"b"] * 2
    ctr.goes.set()
    assert inside.result(60).data == b"a"
    models.close()

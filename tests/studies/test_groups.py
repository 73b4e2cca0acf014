"""`ctrlab bench groups`: every side answers the same, and its command tells all that was measured."""

import json
import os
import time

import numpy as np
import pytest
import tensorflow as tf
from ctrlab.lessons.topics.session_groups.one_request import closed_loop, exported
from typer.testing import CliRunner

from ctrlab.serving.graph import OUTPUT, opened
from ctrlab.serving.processor import Processor
from studies.app import app
from studies.groups import bench as groups
from studies.groups.bench import LAYOUTS, PROCESSORS, SESSIONS, GroupsFound

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two members need two CPUs")


def test_a_session_answers_what_the_processor_answers():
    """Also while a request's tensors are in the graph: nothing was computed before weights were read."""
    with exported("deepfm", 6, "all", "tiny") as model, model.session((1, 2)) as ask, Processor(model.folder) as processor:
        ours = processor.process(model.request, "predict").data
        theirs = np.ravel(ask()).astype("<f4")
        assert theirs.shape == (6,) and np.ptp(theirs) > 0
        found = [np.frombuffer(ours, "<f4", 6, offset=i) for i in range(len(ours) - 23)]
        assert any(np.allclose(each, theirs, rtol=0, atol=1e-6) for each in found)


@pytest.mark.parametrize("optimizations,op", [("all", "Ctrlab>ParseIds"), ("stock", "StringToHashBucketFast")])
def test_a_session_parses_its_request_in_each_call(optimizations, op):
    """TensorFlow computes once what depends on constants alone; a request that it took for one would cost a call nothing."""
    with exported("deepfm", 6, optimizations, "tiny") as model, opened(model.folder / "1", model.tensors) as (session, signature):
        ran = tf.compat.v1.RunMetadata()
        options = tf.compat.v1.RunOptions(output_partition_graphs=True)
        session.run(signature.outputs[OUTPUT].name, options=options, run_metadata=ran)
        assert op in {node.op for graph in ran.partition_graphs for node in graph.node}


def test_closed_loops_count_every_answer():
    asked, start = [], time.perf_counter()
    rate = closed_loop(lambda: (asked.append(0), time.sleep(0.01)), 0.2, callers=3)
    taken, counted = time.perf_counter() - start, len(asked) - 1  # the first call is before the clock
    assert counted > 3 and counted / taken <= rate <= counted / 0.2


def test_open_loops_count_from_the_time_due():
    """One request of 0.2 s: those that were due meanwhile waited."""
    calls = iter([0.2])
    assert groups.open_loop(lambda: time.sleep(next(calls, 0.0)), 100, 0.5, seed=0) > 0.15


@pytest.mark.study
@pytest.mark.timeout(600)
def test_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(groups, "tunings", lambda: [(1, 1), (2, 1)])
    for name in list(LAYOUTS)[:2]:
        monkeypatch.delitem(LAYOUTS, name)
    out = tmp_path / "groups.json"
    words = ["groups", "--heavy", "wdl", "--rows", "20", "--seconds", "0.2s", "--profile", "tiny", "--json", str(out)]
    found = CliRunner(env={"COLUMNS": "160"}).invoke(app, words)
    assert found.exit_code == 0, found.output
    written = json.loads(out.read_text())
    del written["machine"], written["optimizations"]
    record = GroupsFound.from_json(written)
    assert tuple(record.per_second) == (*SESSIONS, *PROCESSORS) and record.tuning in groups.tunings()
    for each in (record.beside, record.alone, record.changing, record.heavy_per_second):
        assert each.keys() == LAYOUTS.keys() and all(len(of) == 3 and min(of) > 0 for of in each.values())
    assert all(min(of) > 0 for of in record.pools.cpu)
    assert "A group's gain on larger machines, estimated" in found.output and "group, by model" in found.output

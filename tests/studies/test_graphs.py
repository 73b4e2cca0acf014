"""`ctrlab bench graphs`, beside a worker that has no onnxruntime; and the real one where it is installed."""

import contextlib
import functools
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from typer.testing import CliRunner

from ctrlab import data
from ctrlab.errors import CtrlabError
from ctrlab.model_names import DATA_SETS
from ctrlab.models import build
from studies.app import app
from studies.graphs import bench as graphs
from studies.graphs.bench import HASHING, ONNX, SAME, TENSORFLOW, GraphCost

FAKE = str(Path(__file__).with_name("fake_onnx.py"))
OURS = ("stock, our processor", "all, our processor")


def small(name):
    """Models with few rows."""
    schema = data.schema(DATA_SETS[name]).with_buckets(500)
    return {each: build(name, schema, optimizations=each) for each in HASHING}


def even(name):
    """Models whose answer to everything is one half."""
    built = small(name)
    for model in built.values():
        _fill(model, tf.zeros_like)
    return built


def _fill(model, make):
    for variable in model.variables:
        variable.assign(make(variable))


@pytest.fixture
def bench(monkeypatch):
    """bench(how) are the rows of a model beside a worker that answers so."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setattr(graphs, "_built", even)
    monkeypatch.setattr(graphs, "CANDIDATES", (3,))
    monkeypatch.setattr(graphs, "BODIES", 2)

    def bench(how, model="din"):
        return list(graphs.bench_graphs([model], "tiny", lambda peer: [sys.executable, FAKE, how]))

    return bench


def test_every_side_has_its_figures(bench):
    rows = bench("quick")
    assert [(row.part, row.side) for row in rows] == [
        *(("graph", side) for side in (TENSORFLOW, ONNX, *OURS)),
        *(("hashing", side) for side in HASHING.values()),
    ]
    for row in rows:
        assert len(row.cpu) == 3 and min(row.cpu) > 0 and row.difference <= SAME
        assert GraphCost.from_json(json.loads(json.dumps(row.to_json()))) == row
    onnx = rows[1]
    assert (onnx.versions, onnx.note, onnx.cpu) == ("onnxruntime 0.0", "fake", (1e-6,) * 3)
    assert onnx.less_than(rows[0]).median == pytest.approx(np.median(rows[0].cpu) / 1e-6)


@pytest.mark.parametrize(
    "how, said",
    [
        ("refusing", "tf2onnx can't convert it: Tensorflow op [x: Odd] is not supported"),
        ("other", "onnxruntime is 0.1 from TensorFlow where 1e-05 is allowed (din, 3 rows, graph)"),
        ("fewer", "onnxruntime is inf from TensorFlow"),
        ("dying", "ended before its work was done (exit code 3)"),
    ],
)
def test_a_graph_that_onnxruntime_cannot_run_is_listed_and_the_others_run(bench, how, said):
    first, onnx, *others = bench(how)
    assert onnx.side == ONNX and onnx.cpu == () and said in onnx.note
    assert all(len(row.cpu) == 3 and not row.note for row in (first, *others))


@pytest.mark.parametrize("how, asked", [("quick", [0, 1]), ("picky", [1]), ("refusing", [0, 1])])
def test_no_side_gets_a_request_that_onnxruntime_refuses(bench, monkeypatch, how, asked):
    made, given = [], []
    make, run = graphs._requests, graphs._graphs
    monkeypatch.setattr(graphs, "_requests", lambda *job: made.append(make(*job)) or made[-1])
    monkeypatch.setattr(graphs, "_graphs", lambda folder, model, ids, held: given.append(ids) or run(folder, model, ids, held))
    rows = bench(how)
    assert [any(each is one for one in given[0]) for each in made[0].ids] == [i in asked for i in range(2)]
    assert bool(rows[1].cpu) == (how != "refusing") and all(len(row.cpu) == 3 for row in rows if row.side != ONNX)


def test_a_library_that_cannot_be_had_is_listed(bench, monkeypatch):
    def no_command(peer):
        raise CtrlabError("pip could not install onnxruntime: no network")

    rows = list(graphs.bench_graphs(["din"], "tiny", no_command))
    assert [row.note for row in rows if not row.cpu] == ["pip could not install onnxruntime: no network"]


def test_our_sides_answer_as_tensorflow_does_or_nothing_is_measured(bench, monkeypatch):
    def odd(name):
        built = even(name)
        _fill(built["all"], tf.ones_like)
        return built

    monkeypatch.setattr(graphs, "_built", odd)
    with pytest.raises(CtrlabError, match=r"all, our processor is 0\.5 from TensorFlow where 1e-05 is allowed \(din, 3 rows"):
        bench("quick")


def test_other_ids_are_no_comparison(bench, monkeypatch):
    """The second side's text is cut: its hashes are others."""
    hashing = graphs._hashing
    calls = []

    def cut(model, texts, held):
        calls.append(model)
        if len(calls) == 2:
            texts = [{name: _cut(text) for name, text in each.items()} for each in texts]
        return hashing(model, texts, held)

    monkeypatch.setattr(graphs, "_hashing", cut)
    with pytest.raises(CtrlabError, match=r"our op is .* from TensorFlow's ops .* hashing"):
        bench("quick")


def _cut(text):
    return tf.nest.map_structure(
        lambda each: tf.strings.substr(each, 0, 1) if each.dtype == tf.string else each, text, expand_composites=True
    )


@pytest.mark.parametrize("model", ["din", "deepfm"])
def test_the_ids_of_a_request_are_the_hashes_of_its_text(model):
    """And the requests differ from each other."""
    files = data.prepare(DATA_SETS[model], profile="tiny")
    stock = small(model)["stock"]
    made = graphs._requests(pq.read_table(files.test[0]), files.schema, stock, 4)
    assert len(made.texts) == len(made.ids) == graphs.BODIES
    for texts, ids in zip(made.texts, made.ids):
        for name, text in texts.items():
            column = stock.input_schema[name]
            words = text.values if isinstance(text, tf.RaggedTensor) else text
            found = ids[f"{name}/values" if isinstance(text, tf.RaggedTensor) else name]
            if column.encoding == "hash":
                expected = tf.strings.to_hash_bucket_fast(words, column.buckets)
            else:
                expected = [column.vocabulary.index(word.decode()) for word in words.numpy()]
            np.testing.assert_array_equal(expected, found, err_msg=name)
    assert any(not np.array_equal(made.ids[0][name], made.ids[1][name]) for name in made.ids[0])


@pytest.mark.parametrize("optimizations, op", [("stock", "StringToHashBucketFast"), ("all", "Ctrlab>ParseIds")])
def test_text_is_hashed_in_every_call(monkeypatch, optimizations, op):
    """Not once, while the session makes its graph smaller."""
    made = []

    class Kept(tf.compat.v1.Session):
        def __init__(self, **options):
            super().__init__(**options)
            made.append(self)

    monkeypatch.setattr(tf.compat.v1, "Session", Kept)
    text = {"item": tf.constant(["a", "b"]), "category": tf.constant(["c", "d"])}
    with contextlib.ExitStack() as held:
        side = graphs._hashing(small("din")[optimizations], [text], held)
        [session] = made
        fetched = [each for each in session.graph.get_operations() if each.type == "ConcatV2"][-1].outputs[0]
        meta, options = tf.compat.v1.RunMetadata(), tf.compat.v1.RunOptions(output_partition_graphs=True)
        np.testing.assert_array_equal(session.run(fetched, options=options, run_metadata=meta), side.answers[0])
        assert any(node.op == op for graph in meta.partition_graphs for node in graph.node)


def test_both_sets_have_the_same_weights_and_none_is_zero():
    built = graphs._built("wdl")
    stock, ours = ({weight.path.partition("/")[2]: weight.numpy() for weight in of.trainable_variables} for of in built.values())
    assert stock.keys() == ours.keys()
    for path, weight in stock.items():
        np.testing.assert_array_equal(weight, ours[path], err_msg=path)
        assert np.abs(weight).max() > 0.01, path


@pytest.mark.timeout(600)
def test_the_command(bench, tmp_path, monkeypatch):
    command = functools.partial(graphs.bench_graphs, command=lambda peer: [sys.executable, FAKE, "refusing"])
    monkeypatch.setattr(graphs, "bench_graphs", command)
    out = tmp_path / "graphs.json"
    words = ["graphs", "din", "--profile", "tiny", "--json", str(out)]
    found = CliRunner(env={"COLUMNS": "200"}).invoke(app, words)
    assert found.exit_code == 0, found.output
    assert "missing" in found.output and "din, 3 rows, onnxruntime: tf2onnx can't convert it: Tensorflow op" in found.output
    record = json.loads(out.read_text())
    assert record["profile"] == "tiny" and record["machine"]
    assert [GraphCost.from_json(row).side for row in record["rows"]] == [TENSORFLOW, ONNX, *OURS, *HASHING.values()]


@pytest.mark.parametrize(
    "model, note",
    [
        ("din", ""),
        pytest.param("dlrm", "log1p(x) is log(1 + x), since tf2onnx knows no Log1p; it refuses", marks=pytest.mark.long),
    ],
)
def test_onnxruntime_answers_as_tensorflow_does(model, note, monkeypatch):
    if not graphs.PEER.environment.installed:
        pytest.skip("onnxruntime is not installed; `ctrlab bench graphs` does it")
    monkeypatch.setattr(graphs, "CANDIDATES", (3,))
    monkeypatch.setattr(graphs, "_built", small)
    onnx = next(row for row in graphs.bench_graphs([model], "tiny") if row.side == ONNX)
    assert onnx.cpu and onnx.difference <= SAME and "tf2onnx" in onnx.versions and onnx.note.startswith(note), onnx.note

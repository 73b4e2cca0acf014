"""An empty word stands for a missing one in a column of words, and is refused in a list: in files, by `score` and by requests."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from served import TOLERANCE
from wire_requests import answer_of, answer_of_infer, answer_of_infer_json, infer_json, infer_request

from ctrlab import data, models, serving, training
from ctrlab.errors import BadData
from ctrlab.schema import Categorical, Label, MultiHot, Schema, Sequence
from ctrlab.serving import warm_up
from ctrlab.serving.processor import Code, Processor, Refused

SCHEMA = Schema(
    "own",
    (
        Label("click"),
        Categorical("shop", buckets=50, default="A"),
        Categorical("city", buckets=50),
        MultiHot("tags", buckets=50),
        Sequence("past", of="shop", table="shop", buckets=50),
    ),
)
ROW = {"shop": "B", "city": "Rome", "tags": ["x", "y"], "past": ["B", "C"]}
EMPTY = [ROW | {"shop": ""}, ROW | {"city": ""}, ROW | {"tags": [], "past": []}]
REFUSED = [ROW | {"tags": ["", "y"]}, ROW | {"tags": [""]}, ROW | {"past": ["B", ""]}]


@pytest.fixture(scope="module")
def version(tmp_path_factory):
    """A model whose rows differ, and its processor."""
    model = models.build("wdl", SCHEMA, size="small")
    rng = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign(weight + rng.standard_normal(weight.shape))
    out = tmp_path_factory.mktemp("models") / "ctr"
    serving.export_model(model, out)
    with Processor(out, poll_seconds=0) as processor:
        yield model, processor


def table(rows) -> dict:
    return {"click": [1.0] * len(rows)} | {name: [row[name] for row in rows] for name in ROW}


def parquet(rows, path):
    """A file of other programs."""
    lists = dict.fromkeys(("tags", "past"), pa.list_(pa.string()))
    pq.write_table(pa.table({name: pa.array(values, lists.get(name)) for name, values in table(rows).items()}), path)


def tfrecord(rows, path):
    """A file of other programs, with a feature for each value."""
    with tf.io.TFRecordWriter(str(path)) as file:
        for row in rows:
            words = {name: [row[name]] if isinstance(row[name], str) else row[name] for name in ROW}
            features = {
                name: tf.train.Feature(bytes_list=tf.train.BytesList(value=map(str.encode, values)))
                for name, values in words.items()
            }
            features["click"] = tf.train.Feature(float_list=tf.train.FloatList(value=[1]))
            file.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def read(path, lists="ragged"):
    with data.explained():
        [(features, _)] = data.read(path, SCHEMA, batch_size=9, lists=lists)
    return features


def requests(processor, rows):
    """A function for each way to ask, which gives the answers."""
    whole = {name: values for name, values in table(rows).items() if name != "click"}
    tensors = {}
    for name, values in whole.items():
        if isinstance(values[0], str):
            tensors[name] = tf.constant(values)
        else:
            entries = [entry for value in values for entry in value]
            tensors[f"{name}/values"] = tf.constant(entries, tf.string, [len(entries)])
            tensors[f"{name}/row_splits"] = tf.constant(np.cumsum([0, *map(len, values)]), tf.int64)
    body, header = infer_json(tensors, True)
    process = processor.process
    return [
        lambda: json.loads(process(json.dumps({"instances": rows}).encode(), "json").data)["predictions"],
        lambda: json.loads(process(json.dumps({"inputs": whole}).encode(), "json").data)["outputs"],
        lambda: answer_of(process(warm_up.predict_request("ctr", tensors), "predict").data)[0],
        lambda: answer_of_infer(process(infer_request(tensors, True), "infer").data),
        lambda: answer_of_infer(process(infer_request(tensors, False), "infer").data),
        lambda: answer_of_infer_json(process(body, "infer_json", header)),
    ]


def test_an_empty_word_is_a_missing_one(version, tmp_path):
    model, processor = version
    wanted = training.score(model, table([ROW | {"shop": "A"}, *EMPTY[1:]]))
    assert len({*wanted[:, 0]}) == len(wanted)
    for write in (parquet, tfrecord):
        write(EMPTY, tmp_path / f"rows.{write.__name__}")
    for ending in ("csv", "tfrecord.gz"):
        data.write(table(EMPTY), SCHEMA, tmp_path / f"rows.{ending}", progress=False)
    for path in (path for path in tmp_path.iterdir()):
        for lists in ("ragged", "text"):
            np.testing.assert_allclose(model.probabilities(read(path, lists)), wanted, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(training.score(model, table(EMPTY)), wanted, rtol=0, atol=TOLERANCE)
    for ask in requests(processor, EMPTY):
        np.testing.assert_allclose(np.reshape(ask(), wanted.shape), wanted, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("row", REFUSED, ids=["a first word", "an only word", "a history's last word"])
def test_an_empty_word_in_a_list_is_refused(version, tmp_path, row):
    model, processor = version
    name = "tags" if "" in row["tags"] else "past"
    rows = [ROW, row]
    parquet(rows, tmp_path / "rows.parquet")
    tfrecord(rows, tmp_path / "rows.tfrecord")
    acts = [
        (lambda: read(tmp_path / "rows.parquet"), "row 1, counted from 0, has one"),
        (lambda: read(tmp_path / "rows.parquet", "text"), "row 1, counted from 0, has one"),
        (lambda: read(tmp_path / "rows.tfrecord"), "record 2, counted from 1"),
        (lambda: read(tmp_path / "rows.tfrecord", "text"), "record 2, counted from 1"),
        (lambda: training.score(model, table(rows)), "must not be empty"),
        (lambda: data.write(table(rows), SCHEMA, tmp_path / "rows.csv", progress=False), "must not be empty"),
    ]
    for act, said in acts:
        with pytest.raises(BadData, match=said) as caught:
            act()
        assert repr(name) in str(caught.value) and len(str(caught.value).splitlines()) == 1
    for ask in requests(processor, rows):
        with pytest.raises(Refused, match=r"Lists have no empty words; one in tags, past has") as refused:
            ask()
        assert refused.value.code == Code.INVALID
    assert len(requests(processor, [ROW])[0]()) == 1

"""A row with missing values gets one answer: from a file by `score`, and over each protocol in each way to say so."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served import TOLERANCE
from wire_requests import answer_of, answer_of_infer, answer_of_infer_json, infer_json, infer_request

from ctrlab import models, serving, training
from ctrlab.errors import CtrlabError
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, NumericList, Schema, Sequence
from ctrlab.serving import inputs, warm_up
from ctrlab.serving.processor import Code, Processor, Refused

SCHEMA = Schema(
    "own",
    (
        Label("clicked"),
        Numeric("age", default=31.5),
        Numeric("spent", default=-2.0, transform="log1p", low=-9.0),
        NumericList("prices", default="71.5;3", transform="minmax", low=2.0, high=90.0),
        Categorical("city", buckets=100, default="Rome"),
        Categorical("plan", encoding="vocabulary", vocabulary=("free", "paid"), default="paid"),
        Categorical("shop", buckets=100),
        Categorical("shelf", encoding="identity", buckets=9, default="4"),
        MultiHot("tags", buckets=100),
        MultiHot("floors", encoding="identity", buckets=9),
        Sequence("past", of="shop", table="shop", buckets=100),
    ),
    user_columns=("age", "city", "tags"),
)
VALUES = {
    "age": st.floats(-50, 50, width=32),
    "spent": st.floats(-5, 5, width=32),
    "prices": st.lists(st.floats(2, 90, width=32), min_size=1, max_size=3),
    "city": st.sampled_from(["Oslo", "Rome", "Köln"]),
    "plan": st.sampled_from(["free", "paid", "other"]),
    "shop": st.sampled_from("ABC"),
    "shelf": st.integers(0, 8),
    "tags": st.lists(st.sampled_from("xyz"), max_size=3),
    "floors": st.lists(st.integers(0, 8), max_size=3),
    "past": st.lists(st.sampled_from("ABC"), max_size=3),
}
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | value for name, value in VALUES.items()}), min_size=1, max_size=4)
TYPES = {"shelf": pa.int64(), "prices": pa.list_(pa.float32()), "floors": pa.list_(pa.int64())}
TYPES |= {"age": pa.float32(), "spent": pa.float32()} | dict.fromkeys(("tags", "past"), pa.list_(pa.string()))


def made(rung, seed=5):
    model = models.build("dlrm", SCHEMA, rung)
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(weight + rng.standard_normal(weight.shape) * 0.05)
    return model


@pytest.fixture(scope="module", params=["stock", "all", "users"])
def version(request, tmp_path_factory):
    """A model, its columns, and its processor."""
    out = tmp_path_factory.mktemp("models") / "ctr"
    model = made("stock" if request.param == "stock" else "all")
    folder = serving.export_model(model, out, share_users=request.param == "users")
    columns = serving.read_manifest(folder).inputs
    with Processor(out, poll_seconds=0) as processor:
        yield model, columns, processor


def table(rows):
    return pa.table({name: pa.array([row[name] for row in rows], TYPES.get(name, pa.string())) for name in VALUES})


def tensors(rows, columns):
    """The rows' tensors, without columns that have no value; in place of a single missing value they have the empty one."""
    found = {}
    for each in columns:
        if each == inputs.COUNTS or all(row[each.column] is None for row in rows):
            continue
        values = [row[each.column] for row in rows]
        if each.ragged:
            lists = [value or [] for value in values]
            flat = [entry for entries in lists for entry in entries]
            found[f"{each.column}/values"] = tf.constant(flat, each.dtype, [len(flat)])
            found[f"{each.column}/row_splits"] = tf.constant(np.cumsum([0, *map(len, lists)]), tf.int64)
        else:
            empty = "" if each.dtype == "string" else each.default
            found[each.column] = tf.constant([empty if value is None else value for value in values], each.dtype)
    return found


def by_name(rows):
    return {name: [row[name] for row in rows] for name in VALUES}


@given(rows=ROWS, data=st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_row_with_missing_values_gets_one_answer(version, tmp_path_factory, rows, data):
    model, columns, processor = version
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(table(rows), path)
    expected = training.score(model, path)

    def same(found):
        np.testing.assert_allclose(np.reshape(found, expected.shape), expected, rtol=0, atol=TOLERANCE)

    def asked(body):
        return json.loads(processor.process(json.dumps(body).encode(), "json").data)

    null = [{name: value for name, value in row.items() if value is not None or data.draw(st.booleans())} for row in rows]
    same(asked({"instances": null})["predictions"])
    empty = {name for name, values in by_name(rows).items() if all(value is None for value in values)}
    whole = {name: values for name, values in by_name(rows).items() if name not in empty or data.draw(st.booleans())}
    there = tensors(rows, columns)
    if not there:  # then nothing says how many rows there are
        with pytest.raises(Refused, match="a column at least"):
            processor.process(b'{"inputs": {}}', "json")
        return
    same(asked({"inputs": whole})["outputs"])
    same(answer_of(processor.process(warm_up.predict_request("ctr", there), "predict").data)[0])
    for raw in (True, False):
        same(answer_of_infer(processor.process(infer_request(there, raw), "infer").data))
        body, header = infer_json(there, raw)
        same(answer_of_infer_json(processor.process(body, "infer_json", header)))


def test_an_input_without_a_default_is_in_each_row(tmp_path):
    """An id that is a number, as in encoded files, where none is missing; a table says the same."""
    schema = Schema("own", (Label("clicked"), Categorical("shelf", encoding="identity", buckets=9), Numeric("age", default=2.0)))
    model = models.build("wdl", schema, "stock")
    folder = serving.export_model(model, tmp_path / "ctr")
    assert [each.default for each in serving.read_manifest(folder).inputs] == [None, 2.0]
    with pytest.raises(CtrlabError, match="'shelf' must not be empty"):
        training.score(model, {"shelf": [1, None], "age": [1.0, 2.0]})
    with Processor(tmp_path / "ctr", poll_seconds=0) as processor:
        assert processor.info()["defaults"] == {"age": 2.0}
        for body, said in (
            ({"instances": [{"shelf": 1}, {"age": 1}]}, "a default; row 1 lacks shelf"),
            ({"instances": [{"shelf": None}]}, "shelf, row 0, must be a whole number of 64 bits; received null"),
            ({"inputs": {"age": [1.0]}}, "shelf, of type int64, is missing, and has no default"),
            ({"inputs": {"age": [1.0], "shelf": None}}, "a value for each row; received null for shelf"),
            ({"inputs": {"shelf": [1, None]}}, "shelf, row 1, must be"),
        ):
            with pytest.raises(Refused, match=said) as refused:
                processor.process(json.dumps(body).encode(), "json")
            assert refused.value.code == Code.INVALID


def test_a_part_of_a_list_is_not_left_out(version):
    processor = version[2]
    for body, said in (
        ({"inputs": {"age": [1.0], "tags/values": ["x"]}}, "tags/row_splits, of type int64, is missing"),
        ({"inputs": {"age": [1.0], "tags": [["x", None]]}}, "tags, row 0, must be text"),
        ({"inputs": {"age": [1.0], "tags/values": None}}, "received null for tags/values"),
    ):
        with pytest.raises(Refused, match=said):
            processor.process(json.dumps(body).encode(), "json")


def test_few_bytes_leave_out_few_values(version):
    body = b'{"instances": [' + b",".join([b"{}"] * 100_000) + b"]}"
    with pytest.raises(Refused, match="leaves out at most as many values as it has bytes"):
        version[2].process(body, "json")

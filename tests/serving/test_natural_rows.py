"""Rows as people have them get one answer, bit for bit: from a frame, from files by `score`, and over each protocol."""

import contextlib
import json
import logging

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from jsonschema import Draft202012Validator
from wire_requests import answer_of, answer_of_infer, answer_of_infer_json, infer_json, infer_request

from ctrlab import models, serving, training
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, Schema
from ctrlab.server.openapi import document
from ctrlab.server.served import ServedModel
from ctrlab.serving import warm_up
from ctrlab.serving.processor import Processor, Refused

SCHEMA = Schema(
    "own",
    (
        Label("click"),
        Categorical("item", buckets=10_000),
        Categorical("plan", encoding="vocabulary", vocabulary=("1", "2", "free"), default="2"),
        Categorical("shelf", encoding="identity", buckets=9, default="4"),
        MultiHot("tags", buckets=10_000),
        Numeric("age", default=31.5),
        Numeric("member"),
    ),
)
ROWS = [
    {"item": 438, "plan": 1, "shelf": 3, "tags": [7, 8], "age": 20, "member": True},
    {"item": None, "plan": None, "shelf": None, "tags": None, "age": None, "member": None},
    {"item": -5, "plan": 2, "shelf": 8, "tags": [], "age": 0.5, "member": False},
    {"item": 2**53 - 1, "plan": 7, "shelf": 0, "tags": [20], "age": -3, "member": True},
]


@pytest.fixture(scope="module", params=["stock", "all"])
def version(request, tmp_path_factory):
    model = models.build("dlrm", SCHEMA, request.param)
    rng = np.random.default_rng(5)
    for weight in model.weights:
        weight.assign(weight + rng.standard_normal(weight.shape) * 0.05)
    out = tmp_path_factory.mktemp("models") / "ctr"
    serving.export_model(model, out)
    with Processor(out, poll_seconds=0) as processor:
        yield model, processor


def spelled(rows, one):
    """The rows with each id, alone or in a list, in another way."""

    def of(name, value):
        if name in ("age", "member") or value is None:
            return value
        return [one(entry) for entry in value] if isinstance(value, list) else value if name == "shelf" else one(value)

    return [{name: of(name, value) for name, value in row.items()} for row in rows]


WAYS = {"whole": int, "floats": float, "texts": str, "texts of floats": "{}.0".format, "exponents": "{:.17e}".format}


@pytest.mark.parametrize("way", WAYS)
def test_natural_rows_get_one_answer(version, tmp_path, way):
    model, processor = version
    whole = pd.DataFrame(ROWS).astype({"item": "Int64", "plan": "Int64", "shelf": "Int64"})
    expected = training.score(model, whole)
    assert len(np.unique(expected)) == len(ROWS)
    rows = spelled(ROWS, WAYS[way])

    def same(found, to):
        np.testing.assert_array_equal(np.reshape(np.array(found, np.float32), expected.shape), to)

    def asked(body):
        return json.loads(processor.process(json.dumps(body).encode(), "json").data)

    frame = pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=object) for name in ROWS[0]})
    frame.to_parquet(tmp_path / "rows.parquet")
    for table in (frame, tmp_path / "rows.parquet"):
        np.testing.assert_array_equal(training.score(model, table), expected)
    answered = np.array(asked({"instances": ROWS})["predictions"], np.float32)
    np.testing.assert_allclose(answered, expected, rtol=0, atol=1e-6)
    for given in (rows, [{name: value for name, value in row.items() if value is not None} for row in rows]):
        same(asked({"instances": given})["predictions"], answered)
    same(asked({"inputs": {name: [row[name] for row in rows] for name in ROWS[0]}})["outputs"], answered)

    there = [row | {"item": 0} if row["item"] is None else row for row in ROWS]  # a number says of no word that it is missing
    answered = np.array(asked({"instances": there})["predictions"], np.float32)
    tensors = tensors_of(spelled(there, WAYS[way]), WAYS[way])
    same(answer_of(processor.process(warm_up.predict_request("ctr", tensors), "predict").data)[0], answered)
    for raw in (True, False):
        same(answer_of_infer(processor.process(infer_request(tensors, raw), "infer").data), answered)
        body, header = infer_json(tensors, raw)
        same(answer_of_infer_json(processor.process(body, "infer_json", header)), answered)


def tensors_of(rows, one):
    """Rows as tensors; a missing value is the default. Ids are numbers if they are numbers in the rows."""
    kind = {int: tf.int64, float: tf.float64}.get(one, tf.string)
    defaults = {"plan": one(2), "shelf": 4, "age": 31.5, "member": 0.0}
    rows = [{name: defaults.get(name, []) if value is None else value for name, value in row.items()} for row in rows]
    types = {"item": kind, "plan": kind, "shelf": tf.int64, "age": tf.float32, "member": tf.float32}
    found = {name: tf.constant([row[name] for row in rows], dtype) for name, dtype in types.items()}
    lists = tf.ragged.constant([row["tags"] for row in rows], kind, row_splits_dtype=tf.int64)
    return found | {"tags/values": lists.values, "tags/row_splits": lists.row_splits}


def test_numbers_that_are_no_words_are_refused(version):
    processor = version[1]
    whole = tf.constant([1, 2], tf.int64)
    for body, said in (
        (
            {"instances": [{"item": 1.5}]},
            r"item, row 0, must be text, or a whole number of 64 bits; received a number: 1.5: send it",
        ),
        ({"instances": [{"item": 1e300}]}, r"item, row 0, must be text, or a whole number of 64 bits; received a number: 1e"),
        ({"instances": [{"item": True}]}, r"item, row 0, must be text, or .*; received true\.$"),
        ({"instances": [{"tags": [1, None]}]}, r"tags, row 0, must be text, or .*; received null\.$"),
        ({"instances": [{"shelf": 3.5}]}, r"shelf, row 0, must be a whole number of 64 bits; received a number: 3\.5\.$"),
        ({"instances": [{"shelf": "3"}]}, r'shelf, row 0, must be a whole number of 64 bits; received text: "3"\.$'),
        ({"instances": [{"age": "3"}]}, r'age, row 0, must be a number that 32 bits hold; received text: "3"\.$'),
    ):
        with pytest.raises(Refused, match=said):
            processor.process(json.dumps(body).encode(), "json")
    for odd in (tf.constant([1.0, 1.5], tf.float64), tf.constant([1.0, np.nan], tf.float32)):
        tensors = {"item": odd, "shelf": whole}
        for raw in (True, False):
            with pytest.raises(Refused, match="Value 1 of item, counted from 0, must be text, or a whole number of 64 bits"):
                processor.process(infer_request(tensors, raw), "infer")
        with pytest.raises(Refused, match="Value 1 of item, counted from 0, must be text"):
            processor.process(warm_up.predict_request("ctr", tensors), "predict")
    with pytest.raises(Refused, match="item is of datatype BYTES; received BOOL"):
        processor.process(infer_request({"item": tf.constant([True, False])}), "infer")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"instances": [{"age": NaN}]}', "whose words are true, false and null; this has NaN outside of quotes: .* null"),
        (b'{"instances": [{"age": -Infinity}]}', "this has Infinity outside of quotes"),
        (b'{"instances": [{"item": "a\\"NaN", "plan": None}]}', "this has None outside of quotes"),
        (b'{"instances": [{"item": "NaN",}]}', r"^A request is JSON; this is none: [A-Za-z][a-z].*$"),
        (b'{"instances": [{"item": 18446744073709551616}]}', "write a larger whole one with an exponent, or an id as text"),
        (b"", r"^A request is JSON; this is none: [A-Za-z][a-z].*$"),
    ],
)
def test_what_is_no_json_is_said_in_words(version, body, said):
    with pytest.raises(Refused, match=said) as refused:
        version[1].process(body, "json")
    assert "ERROR" not in str(refused.value)


def test_columns_that_the_model_does_not_know_are_ignored_by_choice(version, tmp_path, caplog):
    model, processor = version
    serving.export_model(model, tmp_path / "ctr")
    known = {name: value for name, value in ROWS[0].items() if name != "tags"}
    rows = [known | {"agent": "x", "click": 1}, {"click": None} | known, {"agent": [{"deep": 1}]} | known | {"click": 0}]
    right = json.loads(processor.process(json.dumps({"instances": [known] * 3}).encode(), "json").data)["predictions"]
    columns = {name: [value] * 3 for name, value in known.items()} | {"agent": {"a": 1}}
    tensors = tensors_of([ROWS[0]] * 3, int) | {"when": tf.constant(["now"] * 3), "where": tf.constant([1.0, 2.0, 3.0])}
    del tensors["tags/values"], tensors["tags/row_splits"]
    bodies = [(json.dumps({"instances": rows}).encode(), "json", -1), (json.dumps({"inputs": columns}).encode(), "json", -1)]
    bodies += [(warm_up.predict_request("ctr", tensors), "predict", -1)]
    bodies += [(infer_request(tensors, raw), "infer", -1) for raw in (True, False)]
    bodies += [(body, "infer_json", header) for body, header in (infer_json(tensors, raw) for raw in (True, False))]
    with contextlib.closing(ServedModel(tmp_path / "ctr", "ctr", ignore_unknown=True)) as served:
        readers = {"predict": lambda reply: answer_of(reply.data)[0], "infer": lambda reply: answer_of_infer(reply.data)}
        readers |= {"json": lambda reply: next(iter(json.loads(reply.data).values())), "infer_json": answer_of_infer_json}
        for body, format, header in bodies:
            with pytest.raises(Refused, match=r"the inputs of the model and no others; .* let the server ignore unknown columns"):
                processor.process(body, format, header)
            found = readers[format](served.newest.process(body, format, header))
            np.testing.assert_array_equal(np.reshape(np.array(found, np.float32), [3, 1]), np.array(right, np.float32))
        assert served.newest.info()["ignored"] == ["agent", "click", "when", "where"]
        with caplog.at_level(logging.WARNING):
            served.look()
            served.look()
        assert [record.message for record in caplog.records if "does not know" in record.message] == [
            "Requests have columns that the model does not know, and that are left out: to ctr, agent, click, when, where"
        ]
        described = document({"ctr": served.newest.info()})
    Draft202012Validator(
        described["paths"]["/v1/models/ctr:predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    ).validate({"instances": rows})

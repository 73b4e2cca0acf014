"""An export answers what is missing as the model answers it: with the columns' defaults."""

import json

import numpy as np
import pytest
import tensorflow as tf
from served import TOLERANCE
from wire_requests import by_columns

from ctrlab import models, serving, training
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, NumericList, Schema
from ctrlab.serving import inputs
from ctrlab.serving.processor import Code, Processor, Refused

SCHEMA = Schema(
    "own",
    (
        Label("clicked"),
        Categorical("city", buckets=100, default="Rome"),
        Categorical("plan", encoding="vocabulary", vocabulary=("free", "paid"), default="paid"),
        Categorical("shop", buckets=100),
        MultiHot("tags", buckets=100),
        Numeric("age"),
        NumericList("prices", default="71.5;3", transform="minmax", low=2.0, high=90.0),
        NumericList("zeros", transform="minmax", low=2.0, high=90.0),
    ),
)
WHOLE = {"city": "Oslo", "plan": "free", "shop": "A", "tags": ["x"], "age": 3.0, "prices": [5.0, 6.0], "zeros": [1.0]}
NONE = {"city": "", "plan": "", "shop": "", "tags": [], "age": 3.0, "prices": [], "zeros": []}
ROWS = [WHOLE, NONE, WHOLE | {"prices": []}, WHOLE | {"city": ""}, WHOLE | {"plan": ""}, WHOLE | {"shop": ""}]


@pytest.fixture(scope="module")
def model():
    made = models.build("dlrm", SCHEMA, "all")
    rng = np.random.default_rng(5)
    for weight in made.weights:
        weight.assign(weight + rng.standard_normal(weight.shape) * 0.05)
    return made


def of(rung, model):
    made = models.build("dlrm", SCHEMA, rung)
    made.set_weights(model.get_weights())
    return made


@pytest.mark.parametrize("rung", ["all", "stock"])
@pytest.mark.parametrize("kind", ["text", "ids"])
def test_what_is_empty_in_a_request_is_what_is_missing_in_a_table(model, tmp_path, rung, kind):
    missing = {name: [row[name] or None for row in ROWS] for name in WHOLE}
    expected = training.score(model, missing)
    assert len(np.unique(expected)) == len(ROWS)
    served = of(rung, model)
    serving.export_model(served, tmp_path / "ctr", inputs=kind)
    rows = ROWS
    if kind == "ids":  # there an id is always, as in encoded files
        words = {name: [row[name] or SCHEMA[name].default for row in ROWS] for name in ("city", "plan", "shop")}
        words["tags"] = tf.ragged.constant([row["tags"] for row in ROWS], tf.string)
        ids = model.encoder.ids({name: tf.constant(w) if name != "tags" else w for name, w in words.items()})
        rows = [row | {name: ids[name][n].numpy().tolist() for name in words} for n, row in enumerate(ROWS)]
    with Processor(tmp_path / "ctr", poll_seconds=0) as processor:
        found = json.loads(processor.process(json.dumps({"instances": rows}).encode(), "json").data)["predictions"]
    np.testing.assert_allclose(np.reshape(found, expected.shape), expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("rung", ["all", "stock"])
@pytest.mark.parametrize("splits", [[0, 2, 1], [1, 1, 2], [0, 1, 9], [0, 1, 1], [0, 1], [], [-1, 0, 0]])
def test_splits_that_are_none_are_refused(model, tmp_path, rung, splits):
    served = of(rung, model)
    folder = serving.export_model(served, tmp_path / "ctr")
    columns = serving.read_manifest(folder).inputs
    features = {
        name: tf.ragged.constant([WHOLE[name], NONE[name]]) if isinstance(value, list) else tf.constant([value, NONE[name]])
        for name, value in WHOLE.items()
    }
    right = inputs.to_tensors(features, columns, served)
    wrong = right | {"prices/row_splits": tf.constant(splits, tf.int64)}
    with Processor(tmp_path / "ctr", poll_seconds=0) as processor:
        with pytest.raises(Refused) as refused:
            processor.process(by_columns(wrong), "json")
        assert refused.value.code == Code.INVALID and "\n" not in str(refused.value)
        assert len(json.loads(processor.process(by_columns(right), "json").data)["outputs"]) == 2

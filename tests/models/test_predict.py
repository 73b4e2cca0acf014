"""Keras's `fit`, `predict` and `predict_on_batch` with our models: what is wrong is one sentence, what is right no warning."""

import warnings

import keras
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from ctrlab import data
from ctrlab.errors import BadData, CtrlabError
from ctrlab.models import build
from ctrlab.schema import Categorical, Label, Numeric, Schema
from ctrlab.training import compile_model, score

SCHEMA = Schema("own", (Label("click"), Categorical("user"), Numeric("price")))
FEATURES = {"user": tf.constant(["ann", "ben"]), "price": tf.constant([1.0, 2.0])}


def test_a_bad_row_is_named_with_file_and_line(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("1,ann,2.5\n" * 9 + "1,ann,cheap\n")
    model = build("dlrm", SCHEMA.with_buckets(50), size="small")
    with pytest.raises(BadData, match=r"line 10: .*'price' .*received 'cheap'") as caught:
        model.predict(data.read(path, model.schema, batch_size=4), verbose=0)
    assert "\n" not in str(caught.value)


def test_score_gives_the_probabilities_of_predict_s_logits():
    model = build("dlrm", SCHEMA.with_buckets(50), size="small")
    table = pa.table({name: values.numpy().astype(str if name == "user" else "f4") for name, values in FEATURES.items()})
    np.testing.assert_allclose(score(model, table), tf.sigmoid(model.predict(FEATURES, verbose=0)), rtol=1e-6)


def test_a_closed_table_is_one_sentence():
    model = build("dlrm", SCHEMA, size="small", embedding="variable")
    answers = model.predict_on_batch(FEATURES)
    np.testing.assert_array_equal(model.predict(FEATURES, verbose=0), answers)
    model.close()
    for predict in (model.predict, model.predict_on_batch):
        with pytest.raises(CtrlabError, match=r"^Embedding variable \w+ is closed, .*\.$"):
            predict(FEATURES)


def test_fit_takes_a_dataset_without_a_warning_and_keras_warns_where_it_is_asked_to_shuffle_one():
    model = compile_model(build("dlrm", SCHEMA.with_buckets(50), size="small"))
    batches = tf.data.Dataset.from_tensors((FEATURES, tf.constant([0.0, 1.0])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(batches, verbose=0)
        model.fit(FEATURES, np.array([0.0, 1.0]), batch_size=2, verbose=0)
    with pytest.warns(UserWarning, match="shuffle"):
        model.fit(batches, verbose=0, shuffle=True)


@pytest.mark.parametrize("name", ["mixed_float16", "mixed_bfloat16", "float64"])
def test_another_policy_of_keras_is_refused_at_once(name):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        with pytest.raises(CtrlabError, match=rf"compute in float32; received Keras's global policy {name}: call .* \"bf16\""):
            build("dlrm", SCHEMA.with_buckets(50), size="small")
    finally:
        keras.config.set_dtype_policy(before)

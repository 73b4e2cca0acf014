"""Columns called as in a table of someone's: with spaces, umlauts, brackets. They are trained, saved, exported and served."""

import keras
import numpy as np
import pytest
from served import TOLERANCE, first, probabilities
from wire_requests import answer_of

from ctrlab import data, models, serving, training
from ctrlab.errors import BadSchema
from ctrlab.models.graph_names import graph_name
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, Schema, Sequence
from ctrlab.serving import inputs, warm_up
from ctrlab.serving.graph import answers
from ctrlab.serving.processor import Processor

ODD = ("user id", "größe", "a:b", "item[0]", "clicks/day", "a b", "a_b", "_x", "-x", "a\nb", ".")
SCHEMA = Schema(
    "odd",
    (
        Label("clicked?"),
        *(Categorical(name, buckets=50) for name in ODD[:-1]),
        Numeric("price in €"),
        MultiHot("tags: all", buckets=20),
        Sequence("past [items]", of="item[0]", table="item[0]", buckets=50),
    ),
)


@pytest.fixture(scope="module")
def batches(tmp_path_factory):
    path, rng = tmp_path_factory.mktemp("odd") / "rows.parquet", np.random.default_rng(0)

    def of(column):
        if column.kind == "label":
            return rng.integers(0, 2, 64).astype(float)
        if column.kind == "numeric":
            return rng.random(64)
        words = rng.integers(0, 40, (64, 3)).astype(str).tolist()
        return words if hasattr(column, "separator") else [word for word, *_ in words]

    data.write({column.name: of(column) for column in SCHEMA.columns}, SCHEMA, path, progress=False)
    return data.read(path, SCHEMA, batch_size=16)


@pytest.mark.parametrize(
    ("name", "optimizations", "embedding"),
    [("deepfm", "none", "hashed"), ("deepfm", "all", "hashed"), ("deepfm", "all", "variable"), ("mmoe", "all", "hashed")],
)
def test_any_name_is_trained_saved_and_served(batches, tmp_path, name, optimizations, embedding):
    model = training.compile_model(models.build(name, SCHEMA, optimizations, embedding=embedding, size="small"))
    model.fit(batches, verbose=0)
    model.save(tmp_path / "m.keras")
    features, _ = next(iter(batches))
    expected = probabilities(model, features)
    assert np.array_equal(probabilities(keras.saving.load_model(tmp_path / "m.keras"), features), expected)
    folder = serving.export_model(model, tmp_path / "ctr", rows=[first(features, 3)])
    columns = serving.read_manifest(folder).inputs
    assert [column.column for column in columns] == [column.name for column in SCHEMA.features]
    tensors = inputs.to_tensors(features, columns, model)
    with Processor(tmp_path / "ctr") as processor:
        reply = processor.process(warm_up.predict_request("ctr", tensors), "predict")
    # Not by tf.saved_model.load: it makes Python's parameters of the names, where "a b" and "a_b" are one.
    for found in (answer_of(reply.data)[0], *answers(folder, [tensors])):
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)
    again = models.build("deepfm", SCHEMA, optimizations, embedding=embedding, size="small")
    training.train(again, training.make_optimizer(again), batches)


def test_names_in_graphs_are_the_columns_own_or_stay_apart():
    plain = ("user_id", "User.1", "a-b", "a>b", "_x", "x" * 200)
    assert [graph_name(name) for name in plain] == list(plain)
    found = [graph_name(name) for name in (*ODD, "a-b", "a__", "a:_", "ä", "ö")]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("make", [lambda: MultiHot("a/b"), lambda: Categorical("a/values"), lambda: Numeric("a/row_splits")])
def test_a_name_that_requests_could_not_tell_from_a_lists_part(make):
    with pytest.raises(BadSchema, match="Requests name the parts of a list"):
        make()

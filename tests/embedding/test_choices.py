"""The tables that get the requested embedding, the reasons for the others, and the ids that are keys."""

import numpy as np
import pytest
import tensorflow as tf

import ctrlab
from ctrlab.cli.train import kinds_of
from ctrlab.embedding import Embedding, EmbeddingVariable
from ctrlab.embedding.choices import LEAST_BUCKETS, reasons, resolve
from ctrlab.schema import RAW_IDS, Categorical, Label, Schema

EXTREMES = [-1, 0, np.iinfo(np.int64).min, np.iinfo(np.int64).max, RAW_IDS - 1]
COLUMNS = (
    Label("clicked"),
    Categorical("user", buckets=LEAST_BUCKETS),
    Categorical("hour", buckets=24),
    Categorical("day", encoding="vocabulary", vocabulary=("mon", "tue")),
    Categorical("price", buckets=RAW_IDS, encoding="identity"),
)
SCHEMA = Schema("shop", COLUMNS, wide=("user", "hour", "day"))


@pytest.fixture
def schema():
    columns = [c if c.name != "price" else Categorical("price", buckets=50, encoding="identity") for c in COLUMNS]
    return Schema("shop", tuple(columns), wide=("user", "hour", "day"))


def test_each_table_has_a_reason(schema):
    assert reasons(resolve("variable", schema), schema) == {
        "user": "Variable",
        "hour": "Hashed: 24 buckets, fewer than 1,000; name the table to choose another",
        "day": "Hashed: the 2 words of its vocabulary have a row each",
        "price": "Hashed: 50 numbers are its rows; name the table to choose another",
    }
    assert reasons(resolve({"hour": "variable", "price": "multihash"}, schema), schema) == {
        "user": "Hashed: 1,000 buckets",
        "hour": "Variable",
        "day": "Hashed: the 2 words of its vocabulary have a row each",
        "price": "QuotientRemainder",
    }


def test_the_summary_of_a_training_says_it(schema):
    model = ctrlab.build("dlrm", schema, embedding="variable")
    assert kinds_of(model) == (
        "Embeddings: user as chosen; hashed: hour (24 buckets, fewer than 1,000; name the table to choose another), day (the 2 "
        "words of its vocabulary have a row each), price (50 numbers are its rows; name the table to choose another)."
    )


def test_any_int64_is_a_key_of_a_variable_and_of_the_layer():
    keys = tf.constant(EXTREMES, tf.int64)
    with EmbeddingVariable("items", 2) as variable:
        first = variable.lookup(keys, training=True).numpy()
    assert len(np.unique(first, axis=0)) == len(EXTREMES)
    layer = Embedding(2, combiner="rows")
    assert len(np.unique(layer(keys, training=True).numpy(), axis=0)) == len(EXTREMES)


@pytest.mark.parametrize("rungs", ["none", "all"])
@pytest.mark.parametrize("odd", [-1, RAW_IDS])
def test_ids_of_a_model_end_where_its_docs_say(rungs, odd):
    model = ctrlab.build("dlrm", SCHEMA, rungs, embedding={"price": "variable"})
    words = {name: tf.constant(["mon", "tue"]) for name in ("user", "hour", "day")}
    assert model(words | {"price": tf.constant([0, RAW_IDS - 1], tf.int64)}).shape == (2, 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"(?s)column \\?'?price\\?'? must .*{RAW_IDS}\); received.*{odd}"):
        model(words | {"price": tf.constant([0, odd], tf.int64)})

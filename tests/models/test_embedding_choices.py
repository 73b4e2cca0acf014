"""`build(..., embedding=...)`: what each choice computes in the models, and that it comes back from a file."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ctrlab import training
from ctrlab.data import SCHEMAS, read
from ctrlab.data.encode import encode
from ctrlab.data.sets import generate
from ctrlab.data.writer import write
from ctrlab.embedding import choices, multihash
from ctrlab.embedding.choices import BinaryCode, Hashed, QuotientRemainder
from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.model_names import DATA_SETS
from ctrlab.models import build
from ctrlab.ops import parsing
from ctrlab.schema import RAW_IDS, Categorical, Label, MultiHot, Schema
from ctrlab.training import equality
from tests.few_columns import few

WORDS = Categorical("d", encoding="vocabulary", vocabulary=("w1", "w2"))
BAGS = Schema("bags", (Label("label"), Categorical("a", 1_000), MultiHot("b", 2_000), MultiHot("c", 90), WORDS))


def small(name):
    return few(SCHEMAS[DATA_SETS[name]]).with_buckets(1_000)


TAKEN = {
    "wdl": "multihash",
    "deepfm": BinaryCode(10, operation="multiply"),
    "dlrm": QuotientRemainder(10, operation="concat"),
    "din": BinaryCode(10, operation="multiply", order="skip"),
    "dien": QuotientRemainder(10),
    "mmoe": BinaryCode(10, operation="concat", blocks=3),
}


@pytest.mark.parametrize("name, embedding", TAKEN.items())
def test_models_train_and_fused_agrees_with_stock(name, embedding, batch):
    features, labels = batch(small(name))
    dense = "indicator,parsing,experts"  # what else takes long to trace
    baseline, model = (build(name, small(name), rungs, embedding=embedding) for rungs in (dense, f"{dense},lookup"))
    expected, received = (
        {k: v for k, v in equality.answers(m)(features, labels).items() if not k.startswith("gradient/") or "embedding" in k}
        for m in (baseline, model)
    )
    assert len(received) > 3 and not equality.compare(expected, received)
    step = training.train_step(model, training.make_optimizer(model))
    losses = [float(step(features, labels)) for _ in range(20)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name, embedding", TAKEN.items())
def test_choices_come_back_from_a_file(name, embedding, batch, tmp_path):
    model = build(name, small(name), "all", seed=3, embedding=embedding)
    features, _ = batch(model.schema)
    logits = model(features)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.choices == model.choices and set(model.choices.values()) != {Hashed()}
    np.testing.assert_array_equal(again(features), logits)


@pytest.mark.parametrize("how", ["pooled", "summed"])
@pytest.mark.parametrize("operation", choices.OPERATIONS)
def test_bags_of_several_choices_side_by_side(operation, how, batch):
    """Against the sum, or mean, over each bag of the reference's embeddings."""
    wanted = {"b": QuotientRemainder(rows=30, operation=operation), "c": BinaryCode(rows=30, operation=operation)}
    model = build("wdl", BAGS, "all", embedding=wanted)
    features, _ = batch(BAGS, rows=20)
    ids = model.encoder.ids(features)
    embedding, names = model.embedding, ["a", "b", "c", "b", "d"]
    (out,) = embedding.lookup(ids, **{how: [names]})
    assert out.shape == (20, len(names) * 16)
    for place, name in enumerate(names):
        parts = embedding.parts[name]
        tables = [embedding.tables[t].numpy() for t in parts.names(name)]
        rows = ids[name].to_list() if isinstance(ids[name], tf.RaggedTensor) else [[i] for i in ids[name].numpy()]
        for row, bag in enumerate(rows):
            vectors = multihash.reference(parts, tables, [i for i in bag if i >= 0])
            expected = vectors.sum(0) / (max(len(vectors), 1) if how == "pooled" else 1)
            np.testing.assert_allclose(out[row, place * 16 : place * 16 + 16], expected, rtol=1e-5, atol=1e-6)


def test_raw_ids_are_the_fingerprints_stock_and_fused():
    columns = [Categorical("a", RAW_IDS), MultiHot("b", RAW_IDS)]
    words = [f"word {i}" for i in range(2_000)]
    values = [tf.constant(words), tf.constant([";".join(words[i : i + 3]) for i in range(2_000)])]
    stock, fused = parsing.ids.baseline(columns, values), parsing.ids.fused(columns, values)
    np.testing.assert_array_equal(stock[0], fused[0])
    np.testing.assert_array_equal(stock[1].values, fused[1].values)
    np.testing.assert_array_equal(stock[0], parsing.ids.OP.reference(columns, [words, words])[0])
    assert stock[0].numpy().max() > 1 << 62 and stock[0].numpy().min() >= 0
    assert len(np.unique(stock[0])) == 2_000


@pytest.mark.parametrize("format", ["csv", "tfrecord", "parquet"])
def test_encoded_files_hold_raw_ids(format, tmp_path):
    model = build("wdl", "criteo", "parsing", embedding=dict.fromkeys(("C1", "C3"), "multihash"))
    schema = model.input_schema
    tables = list(generate("criteo", 200, seed=1))
    paths = {}
    for kind, rows, columns in (("raw", tables, SCHEMAS["criteo"]), ("ids", encode(tables, schema), schema.encoded())):
        paths[kind] = tmp_path / f"{kind}.{format}"
        write(rows, columns, paths[kind])
    raw = next(iter(read(paths["raw"], SCHEMAS["criteo"], batch_size=200, format=format)))[0]
    ids = next(iter(read(paths["ids"], schema.encoded(), batch_size=200, format=format)))[0]
    assert (ids["C1"].dtype, ids["C2"].dtype) == (tf.int64, tf.int32)
    assert ids["C1"].numpy().max() > 1 << 60
    np.testing.assert_array_equal(model(raw), model(ids))


def test_linear_weights_are_hashed_whatever_the_embedding(batch):
    schema = SCHEMAS["criteo"].with_buckets(300)
    hashed, raw = build("deepfm", schema, "all"), build("deepfm", schema, "all", embedding="multihash")
    assert [v.shape for v in hashed.linear.weights] == [v.shape for v in raw.linear.weights]
    loss, _, gradients = training.gradients_of(raw, *batch(schema))
    assert np.isfinite(loss) and None not in gradients


def test_what_is_named_is_chosen():
    schema = SCHEMAS["amazon_reviews"].with_buckets(500)
    found = choices.resolve({"history_items": "multihash"}, schema)
    assert found == {"item": QuotientRemainder(), "category": Hashed()} | {
        t: Hashed() for t in schema.tables if t not in ("item", "category")
    }
    everything = choices.resolve("multihash", BAGS)
    assert [type(everything[t]) for t in "abcd"] == [QuotientRemainder] * 2 + [Hashed] * 2
    assert all(choices.from_config(choices.to_config(c)) == c for c in (Hashed(rows=3), BinaryCode(5, blocks=3, order="skip")))


def test_bad_choices_are_refused_in_one_sentence():
    with pytest.raises(UnknownName, match=r"Unknown embedding 'multi_hash'; known are .*Did you mean 'multihash'"):
        build("wdl", BAGS, embedding="multi_hash")
    with pytest.raises(UnknownName, match="Unknown id column or table 'label'"):
        build("wdl", BAGS, embedding={"label": "multihash"})
    with pytest.raises(CtrlabError, match=r"Ids from a vocabulary .* for 'd'"):
        build("wdl", BAGS, embedding={"d": "multihash"})
    with pytest.raises(CtrlabError, match=r"table 'item' got .*Hashed"):
        build("din", "amazon_reviews", embedding={"item": "multihash", "history_items": "hashed"})
    with pytest.raises(CtrlabError, match=r"hashed, multihash, variable .*received 5"):
        build("wdl", BAGS, embedding=5)
    with pytest.raises(CtrlabError, match="column 'a' has raw ids"):
        build("wdl", BAGS.with_raw_ids(["a"]))

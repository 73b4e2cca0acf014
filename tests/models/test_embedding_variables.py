"""`build(..., embedding="variable")`: the six models with a row for each id itself, against dense tables without collisions."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from ctrlab import training
from ctrlab.data import SCHEMAS
from ctrlab.embedding import CounterFilter, GlobalStepEviction, Initializer, L2Eviction, Options, embedding_variables
from ctrlab.embedding.choices import Hashed, Variable
from ctrlab.errors import CtrlabError
from ctrlab.model_names import DATA_SETS
from ctrlab.models import MODELS, build, tables
from ctrlab.schema import RAW_IDS
from tests.few_columns import few

BUCKETS = 20_000  # so many that the 200 words of the batches fall on rows of their own: the twins' premise, which is tested
WORDS = [b"", *(f"w{i}".encode() for i in range(200))]
QUICK = "indicator,parsing,experts,attention,gru,augru,auxiliary,lookup"


def schema(name, columns=few):
    """Few columns of the model's own, or those of another function. All hashed tables have BUCKETS rows."""
    own = columns(SCHEMAS[DATA_SETS[name]])
    hashed = {c.name: dataclasses.replace(c, buckets=BUCKETS) for c in own.id_columns if c.encoding == "hash"}
    return dataclasses.replace(own, columns=tuple(hashed.get(c.name, c) for c in own.columns))


def dense_rows():
    """The row of each word in a table of BUCKETS rows."""
    return tf.strings.to_hash_bucket_fast(WORDS, BUCKETS).numpy()


def keys():
    return tf.strings.to_hash_bucket_fast(WORDS, RAW_IDS)


def twins(name, rungs=QUICK):
    """A model with embedding variables, and one with dense tables that begins with the same rows."""
    size = dataclasses.replace(MODELS[name].presets["contest"], wide_buckets=BUCKETS)
    grown, dense = (build(name, schema(name), rungs, embedding=embedding, size=size) for embedding in ("variable", "hashed"))
    for table, variable in grown.embedding.growing.items():
        values = dense.embedding.tables[table].numpy()
        values[dense_rows()] = variable.lookup(keys(), training=True)
        dense.embedding.tables[table].assign(values)
    return grown, dense


def test_the_dense_twins_have_no_collisions():
    assert len(np.unique(dense_rows())) == len(WORDS)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("staged", [False, True])
def test_a_model_says_what_its_training_step_looks_up(name, staged, monkeypatch, batch):
    model, (features, _) = build(name, schema(name), embedding="variable"), batch(schema(name), seed=0)
    looked_up, grouped = {}, tables.grouped

    def noted(variables, columns, layout, training):
        for table, keys in zip(layout.table_of, columns):
            flat = keys.flat_values if isinstance(keys, tf.RaggedTensor) else keys
            looked_up.setdefault(variables[table].name, set()).update(flat.numpy().tolist())
        return grouped(variables, columns, layout, training)

    monkeypatch.setattr(tables, "grouped", noted)
    model(features, training=True)
    said = {}
    for variable, keys in model.reads(model.encoder.stage(features) if staged else features):
        said.setdefault(variable.name, set()).update(keys.numpy().tolist())
    assert said == looked_up and set(said) == {variable.name for variable in embedding_variables(model)}


@pytest.mark.parametrize("name", MODELS)
def test_variables_train_as_dense_tables_without_collisions(name, batch):
    grown, dense = twins(name)
    assert embedding_variables(grown) and not embedding_variables(dense)
    batches = [batch(schema(name), seed=seed) for seed in range(5)]
    optimizers, losses = [], []
    for model in (grown, dense):
        # Hashed linear weights have a dense gradient: AdamAsync's momentum moves rows that did not come, too. Adagrad's doesn't.
        kind = "adagrad" if schema(name).wide else model.hyper.optimizer
        optimizers.append(training.make_optimizer(model, dataclasses.replace(model.hyper, optimizer=kind)))
        step = training.train_step(model, optimizers[-1])
        losses.append([float(step(*each)) for each in batches])
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert losses[0][-1] != losses[0][0]

    places = dict(zip(keys().numpy().tolist(), dense_rows().tolist()))
    by_path = {v.path: v for v in optimizers[1].variables}
    for table, variable in grown.embedding.growing.items():
        state, wanted = variable.state(), dense.embedding.tables[table]
        rows = [places[key] for key in state.keys.tolist()]
        assert len(rows) > 50
        slots = {
            slot: next(v for p, v in by_path.items() if p.endswith(f"{wanted.path.replace('/', '_')}_{slot}"))
            for slot in state.slots
        }
        for received, expected in [(state.values, wanted), *((state.slots[s], slots[s]) for s in state.slots)]:
            expected = expected.numpy()[rows]
            assert np.linalg.norm(received - expected) <= 1e-5 * np.linalg.norm(expected), table


@pytest.mark.parametrize("name", MODELS)
def test_admission_counts_over_a_run_and_serving_reads_zeros(name, batch):
    """An id that came too seldom has no row: it serves as one that never came, whatever it read in training."""
    model = build(name, schema(name), QUICK, embedding=Variable(Options(admission=CounterFilter(10**6))))
    step = training.train_step(model, training.make_optimizer(model))
    for seed in range(2):
        step(*batch(schema(name), seed=seed))
    for variable in embedding_variables(model):
        state = variable.state()
        assert not len(state.keys) and state.candidate_counts.sum() > 0
    features, _ = batch(schema(name), seed=0)
    unseen = {c: _other_words(values) for c, values in features.items()}
    np.testing.assert_allclose(model(features), model(unseen), rtol=1e-6)


def _other_words(values):
    """The same words with a letter before each that no batch has, where they are ids and not from a vocabulary."""
    if isinstance(values, tf.RaggedTensor):
        return values.with_flat_values(_other_words(values.flat_values))
    return tf.strings.regex_replace(values, r"^(w\d{2,})$", r"x\1") if values.dtype == tf.string else values


@pytest.mark.parametrize("name", ["wdl", "dien"])
def test_fit_trains_and_files_bring_everything_back(name, batch, tmp_path):
    """Keras's own loop trains; `.keras` keeps rows, counts and slots, and training continues from them as if it had not
    stopped.
    """
    options = Options(
        initializer=Initializer("uniform", -0.1, 0.1, seed=5), admission=CounterFilter(2), eviction=L2Eviction(1e-9)
    )
    model = training.compile_model(build(name, schema(name), QUICK, embedding=Variable(options)))
    features, labels = batch(schema(name))
    dataset = tf.data.Dataset.from_tensors((features, labels)).repeat(12)
    losses = model.fit(dataset, epochs=2, verbose=0).history["loss"]
    assert losses[1] < losses[0]
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.choices == model.choices
    np.testing.assert_array_equal(again(features), model(features))
    for mine, theirs in zip(embedding_variables(model), embedding_variables(again)):
        one, other = mine.state(), theirs.state()
        order, its = np.argsort(one.keys), np.argsort(other.keys)
        assert len(one.keys) and np.array_equal(one.keys[order], other.keys[its]) and one.slots.keys() == other.slots.keys()
        assert np.array_equal(one.frequencies[order], other.frequencies[its])
        assert np.array_equal(np.sort(one.candidate_keys), np.sort(other.candidate_keys))
        for slot in one.slots:
            assert np.array_equal(one.slots[slot][order], other.slots[slot][its])
    onward = [m.fit(dataset, verbose=0).history["loss"][0] for m in (model, again)]
    assert onward[0] == pytest.approx(onward[1], rel=1e-6)


def test_tables_may_choose_one_by_one(batch):
    """Some hashed, one compressed, some grown, side by side in one output, and each has its own options."""
    wanted = {"item_id": "variable", "shop_id": Variable(Options(admission=CounterFilter(3))), "user_id": "multihash"}
    whole = schema("wdl", lambda own: own)
    model = build("wdl", whole, "indicator,parsing,lookup", embedding=wanted)
    assert set(model.embedding.growing) == {"item_id", "shop_id"} and set(model.wide.growing) == {"item_id", "shop_id"}
    assert model.choices["brand_id"] == Hashed() and model.embedding.growing["shop_id"].options.admission.threshold == 3
    features, labels = batch(whole)
    step = training.train_step(model, training.make_optimizer(model))
    losses = [float(step(features, labels)) for _ in range(15)]
    assert losses[-1] < losses[0]
    ids = model.encoder.ids(features)
    names = ["brand_id", "item_id", "user_id", "shop_id_list"]
    (out,) = model.embedding.lookup(ids, pooled=[names])
    item = model.embedding.growing["item_id"].lookup(ids["item_id"])
    (brand,) = model.embedding.lookup(ids, pooled=[["brand_id"]])
    np.testing.assert_array_equal(out[:, 16:32], item)
    np.testing.assert_array_equal(out[:, :16], brand)


def test_seeds_of_model_and_options_both_count():
    def first(seed, options_seed):
        options = Options(initializer=Initializer(seed=options_seed))
        tables = build("mmoe", schema("mmoe"), "lookup", seed=seed, embedding=Variable(options)).embedding.growing
        return [tables[name].lookup(keys(), training=True).numpy() for name in list(tables)[:2]]

    one, same, of_model, of_options = first(1, 1), first(1, 1), first(2, 1), first(1, 2)
    assert all(np.array_equal(a, b) for a, b in zip(one, same))
    assert not np.allclose(one[0], one[1])
    assert not np.allclose(one[0], of_model[0]) and not np.allclose(one[0], of_options[0])


def test_the_linear_part_lets_go_by_age_and_not_by_norm():
    by_age, by_norm = Variable(Options(eviction=GlobalStepEviction(7))), Variable(Options(eviction=L2Eviction(0.1)))
    for choice, expected in ((by_age, GlobalStepEviction(7)), (by_norm, None)):
        model = build("deepfm", schema("deepfm"), "indicator", embedding=choice)
        assert {v.options.eviction for v in model.linear.growing.values()} == {expected}
        assert {v.options.eviction for v in model.embedding.growing.values()} == {choice.options.eviction}


def test_another_optimizer_is_refused_in_one_sentence(batch):
    model = build("dlrm", schema("dlrm"), "lookup", embedding="variable")
    model.compile(optimizer="adam", loss=keras.losses.BinaryCrossentropy(from_logits=True))
    with pytest.raises(CtrlabError, match=r"is trained by ctrlab\.training\.TouchedRows"):
        model.fit(tf.data.Dataset.from_tensors(batch(schema("dlrm"))), verbose=0)


def test_a_run_goes_on_from_its_checkpoints(batch, tmp_path):
    """Whole saves and deltas of all tables of a model, those of its linear part included."""
    chosen = Variable(Options(admission=CounterFilter(2)))
    batches = [batch(schema("wdl"), seed=seed) for seed in range(6)]

    def made():
        model = build("wdl", schema("wdl"), "indicator,parsing,lookup", embedding=chosen)
        return model, training.make_optimizer(model)

    model, optimizer = made()
    with training.Checkpoints(tmp_path, model, optimizer, every=1, full_every=3) as run:
        losses = training.train(model, optimizer, batches[:5], on_step=run).losses
    again, its_optimizer = made()
    with training.Checkpoints(tmp_path, again, its_optimizer, resume=True) as run:
        assert run.position == 5 == len(losses)
    onward = [float(training.train_step(*pair)(*batches[5])) for pair in ((model, optimizer), (again, its_optimizer))]
    assert onward[0] == pytest.approx(onward[1], rel=1e-6)
    assert sum(len(variable.state().candidate_keys) for variable in embedding_variables(model)) > 0
    for mine, theirs in zip(embedding_variables(model), embedding_variables(again)):
        one, other = mine.state(), theirs.state()
        assert np.array_equal(np.sort(one.candidate_keys), np.sort(other.candidate_keys))
        order, its = np.argsort(one.keys), np.argsort(other.keys)
        assert np.array_equal(one.keys[order], other.keys[its])
        np.testing.assert_allclose(one.values[order], other.values[its], rtol=1e-6)

"""A model's numbers: presets, single numbers, regularization; the same for every set of optimizations, saved and exported."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
import tensorflow as tf

from ctrlab import training
from ctrlab.data import SCHEMAS
from ctrlab.embedding import embedding_variables
from ctrlab.embedding.table.proxy import Proxy
from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.model_names import DATA_SETS
from ctrlab.models import MODELS, Hyper, build
from ctrlab.schema import Categorical, Label, Numeric, Schema
from ctrlab.training import equality
from ctrlab.training.step import untraced_step
from tests.few_columns import few

FULL = {"dropout": 0.3, "l2": 1e-3, "batch_norm": True}
FEW_ROWS = [name for name in MODELS if "few_rows" in MODELS[name].presets]
ENDS = ("/drawn", "/moving_mean", "/moving_variance")


def small(name, buckets=100):
    return few(SCHEMAS[DATA_SETS[name]]).with_buckets(buckets)


@pytest.mark.parametrize("preset, name", [(preset, name) for name in MODELS for preset in MODELS[name].presets])
def test_a_preset_trains_and_its_optimizer_is_its_own(name, preset, batch):
    model = build(name, small(name), "all", size=preset)
    assert model.sizes == MODELS[name].presets[preset] and model.hyper is model.sizes.hyper
    optimizer = training.make_optimizer(model)
    assert float(optimizer.learning_rate) == pytest.approx(model.hyper.learning_rate)
    assert np.isfinite(training.train_step(model, optimizer)(*batch(model.schema)))


def test_the_default_is_the_contest_and_single_numbers_replace_it():
    assert build("dlrm", small("dlrm")).sizes == MODELS["dlrm"].presets["contest"]
    model = build("dlrm", small("dlrm"), dim=4, units={"bottom": [24]}, dropout=0.5)
    assert model.sizes == dataclasses.replace(
        MODELS["dlrm"].presets["contest"], dim=4, units={"top": (512, 256), "bottom": (24,)}, dropout=0.5
    )
    assert model.bottom.sizes[1:] == (24, 4) and model.embedding.dim == 4
    assert build("dlrm", small("dlrm"), units=(8,)).top.sizes[1:] == (8, 1), "bare units are the first part's"


@pytest.mark.parametrize(
    "wrong, says",
    [
        ({"dim": 0}, "dimension of embeddings must be a whole number from 1 to 65,536; received 0"),
        ({"dim": 2.5}, "received 2.5"),
        ({"dim": True}, "received True"),
        ({"units": {"deep": ()}}, "units of part 'deep' must be those of one layer or more"),
        ({"units": {"deep": 64}}, "units of part 'deep' must be"),
        ({"units": {"deep": (64, 0)}}, "units of a layer of 'deep' must be a whole number from 1"),
        ({"units": {"deep": "64"}}, "units of part 'deep' must be"),
        ({"dropout": 1.0}, r"`dropout` must be in \[0, 1\); received 1.0"),
        ({"dropout": -0.1}, "`dropout` must be in"),
        ({"dropout": float("nan")}, "`dropout` must be in"),
        ({"dropout": "high"}, "`dropout` must be in"),
        ({"l2": -1e-5}, "`l2` must be a finite number of at least 0; received -1e-05"),
        ({"l2": float("nan")}, "`l2` must be"),
        ({"l2": float("inf")}, "`l2` must be"),
        ({"batch_norm": 1}, "`batch_norm` must be True or False; received 1"),
    ],
)
def test_a_number_out_of_its_range_is_refused(wrong, says):
    with pytest.raises(CtrlabError, match=says):
        build("deepfm", small("deepfm"), **wrong)


@pytest.mark.parametrize(
    "wrong, says",
    [
        ({"deviation": -1}, "`deviation` must be a finite number of at least 0; received -1"),
        ({"scaled": "yes"}, "`scaled` must be True or False; received 'yes'"),
        ({"hyper": {"initial_accumulator": 0}}, "`initial_accumulator` must be a finite number above 0; received 0"),
        ({"hyper": {"initial_accumulator": None}}, "`initial_accumulator` must be a finite number above 0; received None"),
        ({"hyper": {"learning_rate": float("nan")}}, "`learning_rate` must be a finite number above 0; received nan"),
        ({"hyper": {"optimizer": "adagrd"}}, r"Unknown optimizer 'adagrd'; known are .* Did you mean 'adagrad'"),
        ({"hyper": {"clip_norm": -1.0}}, "`clip_norm` must be a finite number above 0; received -1.0"),
    ],
)
def test_a_number_of_own_sizes_out_of_its_range_is_refused(wrong, says):
    sizes = MODELS["dlrm"].presets["small"]
    with pytest.raises(CtrlabError, match=says):
        hyper = dataclasses.replace(sizes.hyper, **wrong.pop("hyper", {}))
        dataclasses.replace(sizes, hyper=hyper, **wrong)


def test_numbers_of_other_types_train_as_floats_do():
    hyper = Hyper("sgd", np.float32(0.5), clip_norm=Fraction(1, 2))
    assert [type(n) for n in (hyper.learning_rate, hyper.clip_norm)] == [float, float] and hyper == Hyper("sgd", 0.5, 0.5)


@pytest.mark.parametrize("name", ["wdl", "dlrm"])
def test_a_table_that_no_memory_holds_is_refused_in_a_sentence(name):
    schema = Schema("own", (Label("y"), Categorical("a", buckets=1 << 40), Numeric("x")))
    with pytest.raises(CtrlabError, match=r"'a' .*1,099,511,627,776 rows .*`buckets`"):
        build(name, schema, size="small")


@pytest.mark.parametrize("name", MODELS)
def test_the_initial_deviation_is_that_of_the_sizes(name):
    sizes = dataclasses.replace(MODELS[name].presets["small"], deviation=0.25)
    tables = build(name, SCHEMAS[DATA_SETS[name]].with_buckets(1_000), size=sizes).embedding.tables
    rows = np.concatenate([t.numpy().ravel() for t in tables.values()])
    assert rows.std() == pytest.approx(0.25, rel=0.05)


@pytest.mark.parametrize("kind", ["adagrad", "ftrl", "adam_async"])
def test_the_initial_accumulator_is_that_of_the_sizes(kind, batch):
    hyper = Hyper(kind, 0.01, initial_accumulator=0.5)
    model = build("deepfm", small("deepfm"), size=dataclasses.replace(MODELS["deepfm"].presets["small"], hyper=hyper))
    optimizer = training.make_optimizer(model)
    optimizer.build(model.trainable_variables)
    found = {v.path.rpartition("/")[2]: v.numpy() for v in optimizer.variables if "accumulator" in v.path}
    assert all((value == 0.5).all() for value in found.values()) and bool(found) == (kind != "adam_async")


def test_unknown_sizes_and_parts_say_the_known_ones():
    with pytest.raises(UnknownName, match=r"'smal'; .*contest, small.*'small'"):
        build("wdl", small("wdl"), size="smal")
    with pytest.raises(UnknownName, match=r"'few_rows'; known are contest, small"):
        build("din", small("din"), size="few_rows")
    with pytest.raises(UnknownName, match=r"'botom'; .*top, bottom.*'bottom'"):
        build("dlrm", small("dlrm"), units={"botom": (8,)})
    with pytest.raises(CtrlabError, match=r"'dlrm' are top, bottom; .*deep"):
        build("dlrm", small("dlrm"), size=MODELS["wdl"].presets["small"])
    with pytest.raises(CtrlabError, match="multiples of 16 units; those of 'towers' have 24"):
        build("mmoe", small("mmoe"), units={"towers": (24,)})


@pytest.mark.parametrize("name", FEW_ROWS)
def test_at_few_rows_a_linear_part_is_added_to_the_logits_and_trained(name, batch):
    model = build(name, small(name), "all", size="few_rows")
    features, labels = batch(model.schema)
    linear = model.wide if name == "wdl" else model.linear
    before = model(features)
    linear.bias.assign_add([3.0] * len(model.tasks))
    np.testing.assert_allclose(model(features), before + 3, rtol=0, atol=1e-5)
    training.train_step(model, training.make_optimizer(model))(features, labels)
    assert np.any(linear.kernel), "the words' weights begin as zeros"


@pytest.mark.parametrize("name", ["dlrm", "mmoe"])
def test_a_linear_part_counts_as_work(name):
    sizes = MODELS[name].presets["few_rows"]
    without, including = (build(name, small(name), size=sizes.with_numbers(linear=on)).work(64, 0.0) for on in (False, True))
    assert including.flops > without.flops


@pytest.mark.parametrize("name", MODELS)
def test_initial_weights_depend_on_neither_dropout_nor_l2(name):
    plain, other = (build(name, small(name), size="small", dropout=rate, l2=rate / 5) for rate in (0.0, 0.5))
    expected = {v.path: v.numpy() for v in plain.weights}
    found = {v.path: v.numpy() for v in other.weights if not v.path.endswith("/drawn")}
    assert expected.keys() == found.keys()
    assert all(np.array_equal(expected[path], found[path]) for path in expected)


def answers_of(model):
    """A model's answers from a state, and its changes in one step: loss, logits, gradients of weights, drawn masks,
    statistics.
    """
    optimizer = training.make_optimizer(model)
    step = untraced_step(model, optimizer)

    @tf.function(autograph=False)
    def answer(features, labels):
        loss, logits, gradients = step(features, labels)
        pairs = zip(model.trainable_variables, gradients)
        found = {f"gradient/{v.path}": tf.convert_to_tensor(g) for v, g in pairs if not isinstance(v, Proxy)}
        return {"loss": loss, "logits": logits} | found

    def answers(state, features, labels):
        training.set_state(state, model, optimizer)
        found = dict(answer(features, labels))
        found |= {v.path: v for v in model.weights if v.path.endswith(ENDS)}
        rows = {variable.name: variable.state() for variable in embedding_variables(model)}
        found |= {name: state.values[np.argsort(state.keys)] for name, state in rows.items()}
        return {path: np.asarray(value) for path, value in found.items()}

    return answers, training.get_state(model, optimizer)


@pytest.mark.parametrize(
    "embedding, rungs", [("hashed", "all"), pytest.param("hashed", "stock", marks=pytest.mark.long), ("variable", "all")]
)
@pytest.mark.parametrize(
    "name, size", [*((name, "small") for name in MODELS), *((name, "few_rows") for name in FEW_ROWS if name != "wdl")]
)
def test_every_set_of_optimizations_takes_the_same_step(name, size, embedding, rungs, batch):
    """All kinds of regularization are on: masks, penalties and moving statistics must be the same, too."""
    schema = small(name, 2_000)
    one, other = (build(name, schema, side, embedding=embedding, size=size, **FULL) for side in ("none", rungs))
    (baseline, start), (changed, _) = answers_of(one), answers_of(other)
    rows = batch(schema)
    expected, found = baseline(start, *rows), changed(start, *rows)
    weights = {path for path, value in start.items() if value.size}  # not the variables, which have no rows yet
    rounded = lambda state: baseline(start | {path: state[path] for path in weights}, *rows)  # noqa: E731
    assert equality.differences(expected, found, equality.determined(rounded, start, expected)) == []
    drawn = [v for path, v in found.items() if path.endswith("/drawn")]
    assert drawn and all(count == 1 for count in drawn)

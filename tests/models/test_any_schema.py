"""Any schema: a model uses it, with every set of optimizations alike, or refuses it in one sentence when it is built."""

import functools
import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctrlab import training
from ctrlab.errors import CtrlabError
from ctrlab.models import MODELS, build
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, NumericList, Schema, Sequence
from ctrlab.training import equality

COLUMNS = {
    "word": Categorical("word", 50),
    "known": Categorical("known", encoding="vocabulary", vocabulary=("w1", "w2", "w3"), default="w1"),
    "number_id": Categorical("number_id", 7, "identity", default="0"),
    "single": Categorical("single", 1),
    "bag": MultiHot("bag", 30),
    "history": Sequence("history", 50, table="word", of="word", max_length=4),
    "events": Sequence("events", 20, max_length=3),
    "price": Numeric("price", transform="log1p"),
    "prices": NumericList("prices"),
}
SMALL = {"wdl": (8,), "deepfm": (8,), "dlrm": (8,), "mmoe": (16,), "din": (8,), "dien": (8,)}


def schema_of(names, labels=1, negatives=False):
    columns = [COLUMNS[name] for name in COLUMNS if name in names]
    if "history" in names and "word" not in names:
        columns.insert(0, COLUMNS["word"])
    if "history" in names and negatives:
        columns.append(Sequence("not", 50, table="word", negative_of="history", max_length=4))
    return Schema("any", tuple(Label(f"y{k}") for k in range(labels)) + tuple(columns))


def trains_alike_or_is_refused(name, schema, batch, predict=None):
    """The loss and the logits of all sets of optimizations from the same state; or None if the model refuses the schema.

    Args:
        predict: (model, features) -> probabilities, for the evaluation; None traces them.
    """
    found, start = {}, None
    for rungs in ("none", "all", "stock"):
        try:
            # Normalization makes rounding large where a column is constant, as some are here.
            model = build(name, schema, rungs, dim=4, units=SMALL[name], batch_norm=False)
        except CtrlabError as refused:
            assert re.fullmatch(rf"Model {name!r} needs [^.]+\.( Models [^.]+\.)?", str(refused))
            found[rungs] = None
            continue
        rows = batch(schema, rows=16)
        optimizer = training.make_optimizer(model)
        answer = equality.answers_and_moves(model, optimizer)
        start = start or training.get_state(model, optimizer)
        answers = answer(start, *rows)
        assert training.evaluate(model, [rows], predict and functools.partial(predict, model)).rows == 16
        found[rungs] = {name: answers[name] for name in ("loss", "logits")}
        assert np.isfinite(answers["loss"])
    expected = found.pop("none")
    for other in found.values():
        assert (other is None) == (expected is None)
        assert expected is None or equality.compare(expected, other) == []
    return expected


def untraced(model, features):
    return tf.sigmoid(model(features, training=False))


ONE_COLUMN = [(name,) for name in COLUMNS]
FEW = [
    (),
    ("price", "prices"),
    ("word", "known"),
    ("bag", "events"),
    ("word", "price"),
    ("history", "bag", "prices"),
    tuple(COLUMNS),
]


@pytest.mark.parametrize("names", [*ONE_COLUMN, *FEW], ids=lambda names: "-".join(names) or "none")
@pytest.mark.parametrize("name", MODELS)
def test_one_column_few_or_all(name, names, batch):
    found = trains_alike_or_is_refused(name, schema_of(names), batch, None if len(names) == len(COLUMNS) else untraced)
    ids = [c for c in names if c not in ("price", "prices")]
    used = {"din": "history" in names, "dien": "history" in names}
    assert (found is not None) == used.get(name, len(ids) > 0)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.sets(st.sampled_from(sorted(COLUMNS)), min_size=2), labels=st.integers(1, 3), negatives=st.booleans())
@pytest.mark.long
def test_random_schemas(name, batch, names, labels, negatives):
    trains_alike_or_is_refused(name, schema_of(names, labels, negatives), batch)


def test_no_label_is_refused():
    with pytest.raises(CtrlabError, match=r"Label .*'any' has none"):
        build("wdl", Schema("any", (Categorical("word", 10),)))


def test_columns_that_no_wide_names_all_have_linear_weights():
    schema = schema_of(("word", "bag", "history", "price"), negatives=True)
    assert schema.linear == ("word", "bag", "history")
    assert build("deepfm", schema).linear.sizes == {"word": 50, "bag": 30, "history": 50}
    assert set(build("wdl", schema, embedding={"bag": "variable"}).wide.growing) == {"bag"}

"""The planted model does what its table says, and its ceilings are out of reach but in sight."""

import dataclasses

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from ctrlab.data import SCHEMAS, ceiling
from ctrlab.data.generator import BLOCK
from ctrlab.data.marginals import statistics
from ctrlab.data.planted import PARTS, PERIOD, RARE, Planted, alike, effect, seen
from ctrlab.data.sets import GENERATORS
from ctrlab.data.words import Ragged
from ctrlab.schema import Numeric

PLANS = {name: generator.plan for name, generator in GENERATORS.items()}
TASKS = [(name, task) for name, plan in PLANS.items() for task in plan.deviation]


@pytest.fixture(scope="module")
def drawn():
    """`drawn(name)` -> (values, index, labels, scores) of four blocks' worth of rows from all over the period of the drift."""
    made = {}

    def of(name):
        if name not in made:
            generator, rng = GENERATORS[name], np.random.default_rng(5)
            values = generator.draw(rng, 2 * BLOCK)
            index = np.linspace(0, PERIOD, 2 * BLOCK)
            made[name] = values, index, *generator.planted.draw_labels(rng, values, index)
        return made[name]

    return of


def test_every_set_is_planned():
    for name, plan in PLANS.items():
        assert len(plan.shares) == len(PARTS)
        assert sum(plan.shares) == pytest.approx(1.0)
        assert set(plan.deviation) == {label.name for label in SCHEMAS[name].labels}


@pytest.mark.parametrize(("name", "task"), TASKS)
def test_each_part_has_its_share_of_the_variance(name, task, drawn):
    values, index, *_ = drawn(name)
    planted = GENERATORS[name].planted
    plan = planted.plan
    logit = planted.logit(task, values, index)
    assert logit.std() == pytest.approx(plan.deviation[task], rel=0.12)
    for part, share in zip(PARTS, plan.shares):
        if share:
            alone = plan.deviation[task] * np.sqrt(share) * planted.part(task, part, values, index)
            assert alone.var() / plan.deviation[task] ** 2 == pytest.approx(share, rel=0.15), part
            assert abs(alone.mean()) < 0.1 * plan.deviation[task], part


@pytest.mark.parametrize(("name", "task"), TASKS)
def test_labels_follow_the_planted_probabilities(name, task, drawn):
    _, _, labels, scores = drawn(name)
    if PLANS[name].paired:
        pairs = labels[task].reshape(-1, 2)
        assert np.all(pairs.sum(axis=1) == 1)
        difference = -np.diff(scores[task].reshape(-1, 2), axis=1)[:, 0]
        expected = 1.0 / (1.0 + np.exp(-difference))
        first = pairs[:, 0]
    else:
        expected, first = scores[task], labels[task]
    for low, high in ((0.0, 0.1), (0.1, 0.3), (0.3, 0.6), (0.6, 1.01)):
        rows = (low <= expected) & (expected < high)
        if rows.sum() > 200:
            assert first[rows].mean() == pytest.approx(expected[rows].mean(), abs=4.0 * np.sqrt(0.25 / rows.sum()))


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("food_delivery", {"clicked": (0.77, 0.83)}),
        ("criteo", {"label": (0.78, 0.84)}),
        ("amazon_reviews", {"label": (0.82, 0.88)}),
        ("rees46", {"label": (0.80, 0.88)}),
        ("taobao", {"clk": (0.76, 0.86), "buy": (0.80, 0.93)}),
        ("census_income", {"never_married": (0.98, 0.995), "income_50k": (0.94, 0.98)}),
    ],
)
def test_ceilings(name, bounds):
    found = ceiling(name, 2 * BLOCK, seed=3)
    assert set(found) == set(bounds)
    for task, (low, high) in bounds.items():
        assert low < found[task] < high, task


def test_what_a_history_tells_of_the_other_row_hardly_lifts_the_ceiling(drawn):
    """A model sees one row of a pair; from the history it might guess how good the other one is."""
    values, _, labels, scores = drawn("amazon_reviews")
    history = values["history_categories"]
    users = np.repeat(np.arange(2 * BLOCK), history.lengths)
    pairs, counts = np.unique(users * 4096 + history.values, return_counts=True)
    concentration = np.bincount(pairs // 4096, counts.astype(float) ** 2) / history.lengths**2
    inputs = np.stack([scores["label"], concentration, history.lengths, *alike(values["category"], history)], axis=1)
    reviewed = labels["label"]
    model = HistGradientBoostingClassifier(max_iter=30, learning_rate=0.2).fit(inputs[:BLOCK], reviewed[:BLOCK])
    found = roc_auc_score(reviewed[BLOCK:], model.predict_proba(inputs[BLOCK:])[:, 1])
    assert found < roc_auc_score(reviewed[BLOCK:], scores["label"][BLOCK:]) + 0.003


def test_the_ceiling_is_of_the_very_rows_and_repeatable():
    assert ceiling("taobao", 500, seed=4) == ceiling("taobao", 500, seed=4)
    assert ceiling("taobao", 500, seed=4) != ceiling("taobao", 501, seed=4)
    assert np.isnan(ceiling("taobao", 1)["clk"])


def test_a_linear_model_of_numbers_and_ids_stays_below_the_ceiling(drawn):
    """Pairs can't be had from single columns: that is what the six models are for."""
    values, _, labels, scores = drawn("criteo")
    columns = []
    for column in SCHEMAS["criteo"].features:
        if isinstance(column, Numeric):
            columns.append(stats.zscore(seen(column, values[column.name]))[:, None])
        else:
            columns.append(np.minimum(values[column.name], 14)[:, None] == np.arange(-1, 15))
    inputs, clicked, half = np.hstack(columns).astype(np.float32), labels["label"], BLOCK
    linear = LogisticRegression(C=0.1, max_iter=500, tol=1e-2).fit(inputs[:half], clicked[:half])
    auc = roc_auc_score(clicked[half:], linear.decision_function(inputs[half:]))
    assert 0.6 < auc < roc_auc_score(clicked[half:], scores["label"][half:]) - 0.05


@pytest.mark.parametrize("name", ["criteo", "food_delivery", "taobao", "census_income"])
def test_a_pair_is_seen_in_neither_of_its_columns(name, drawn):
    values, index, *_ = drawn(name)
    planted = GENERATORS[name].planted
    task = next(iter(planted.plan.deviation))
    alone = dataclasses.replace(planted.plan, pairs=planted.plan.pairs[:1])
    pair = Planted(alone, planted.schema, statistics(name), values).part(task, "pairs", values, index)
    for column in alone.pairs[0]:
        if not isinstance(SCHEMAS[name][column], Numeric):
            ids = np.clip(values[column], -1, RARE) + 1
            counts = np.bincount(ids)
            means = np.bincount(ids, pair) / np.maximum(counts, 1)
            explained = (counts * means**2).sum() / len(pair)
            assert explained < 0.15, "share of the pairs' variance that this column alone explains"


def test_effects_are_nearly_normal_and_fixed():
    effects = effect(np.arange(200_000), "common", "C3")
    assert (effects.mean(), effects.std()) == pytest.approx((0.0, 1.0), abs=0.01)
    assert stats.kurtosis(effects) == pytest.approx(-0.3, abs=0.05)  # of the sum of four uniform numbers
    np.testing.assert_array_equal(effects[:10], effect(np.arange(10), "common", "C3"))
    assert abs(np.corrcoef(effects, effect(np.arange(200_000), "common", "C4"))[0, 1]) < 0.01


def test_share_and_last_by_hand():
    lists = Ragged(np.array([1, 2, 1, 3, 4, 4]), np.array([0, 3, 3, 4, 6]))
    share, last = alike(np.array([1, 9, 5, 4]), lists)
    np.testing.assert_allclose(share, [2 / 3, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(last, [1.0, 0.0, 0.0, 1.0])


def test_numbers_are_seen_as_by_a_model():
    values = np.array([np.nan, -5.0, 0.0, 7.0])
    np.testing.assert_allclose(seen(Numeric("I2", transform="log1p", low=-3.0), values), np.log1p([3.0, 0.0, 3.0, 10.0]))
    np.testing.assert_allclose(seen(Numeric("h", default=1.0, transform="minmax", high=2.0), values), [0.5, -2.5, 0.0, 3.5])
    np.testing.assert_allclose(seen(Numeric("h"), values), [0.0, -5.0, 0.0, 7.0])


@pytest.mark.parametrize("name", ["food_delivery", "rees46"])
def test_the_world_does_not_hang_on_the_sample_that_brings_it_to_scale(name, drawn):
    values, index, *_ = drawn(name)
    planted = GENERATORS[name].planted
    other = GENERATORS[name].draw(np.random.default_rng(77), 2 * BLOCK)
    again = Planted(planted.plan, planted.schema, statistics(name), other)
    for task in planted.plan.deviation:
        assert np.corrcoef(planted.logit(task, values, index), again.logit(task, values, index))[0, 1] > 0.99

"""The lessons' small model: its gradient by differences, its learning, and that admission and eviction reach its tables."""

import numpy as np
import pytest
from ctrlab.lessons.topics.eviction.checks import evict
from ctrlab.lessons.topics.eviction.evicted_by import EvictedBy

from ctrlab.embedding.options import CounterFilter, GlobalStepEviction, Options
from ctrlab.lessons.compiled_machine import CompiledMachine
from ctrlab.lessons.factorization import FactorizationMachine, auc, train

COLUMNS = ("a", "b", "c")


def batch(rng, rows=32, ids=9):
    drawn = {c: rng.integers(0, ids, rows) * 2**40 - 3 for c in COLUMNS}
    likely = 1 / (1 + np.exp(-3 * ((drawn["a"] > 2**42).astype(float) * (drawn["b"] > 2**42) - 0.3)))
    return drawn, (rng.random(rows) < likely).astype(np.float64)


def loss_of(model, ids, labels):
    logit = model._logit(model._rows(ids, training=True))[0]
    return np.mean(np.logaddexp(0, logit) - labels * logit)


def test_a_step_goes_down_the_gradient_of_the_loss():
    """With SGD at rate 1, the change of a row is its gradient, which is compared with finite differences."""
    rng = np.random.default_rng(0)
    ids, labels = batch(rng, rows=8, ids=4)
    warm = FactorizationMachine(COLUMNS)
    warm.step(ids, labels)  # so that there are rows
    key = int(ids["b"][0])
    row = warm.tables["b"].rows[key]
    by_differences = np.zeros_like(row.value)
    for d in range(len(row.value)):
        row.value[d] += 1e-6
        above = loss_of(warm, ids, labels)
        row.value[d] -= 2e-6
        by_differences[d] = (above - loss_of(warm, ids, labels)) / 2e-6
        row.value[d] += 1e-6
    before, squares = row.value.copy(), row.slots["accumulator"].copy()
    warm.step(ids, labels)
    gradient = (before - row.value) * np.sqrt(squares + by_differences**2) / warm.learning_rate
    np.testing.assert_allclose(gradient, by_differences, rtol=1e-4, atol=1e-9)


def test_it_learns_and_says_so():
    rng = np.random.default_rng(1)
    model, held_out = FactorizationMachine(COLUMNS), [batch(rng, 400)]
    losses = train(model, (batch(rng) for _ in range(150)))
    assert np.mean(losses[-20:]) < np.mean(losses[:20]) - 0.02
    assert auc(model, held_out) > 0.6 and auc(FactorizationMachine(COLUMNS), held_out) == 0.5


def test_options_are_of_all_columns_or_of_some():
    rng = np.random.default_rng(2)
    batches = [batch(rng, rows=4, ids=200) for _ in range(6)]
    admission = Options(admission=CounterFilter(3), eviction=GlobalStepEviction(2))
    every, one = FactorizationMachine(COLUMNS, admission), FactorizationMachine(COLUMNS, {"b": admission})
    train(every, batches)
    train(one, batches)
    assert every.states()["a"].candidate_keys.size and not one.states()["a"].candidate_keys.size
    assert one.states()["b"].candidate_keys.size == every.states()["b"].candidate_keys.size
    sizes = [model.states()["b"].candidate_keys.size for model in (every, one)]
    every.evict()
    one.evict()
    assert [model.states()["b"].candidate_keys.size for model in (every, one)] < sizes


@pytest.mark.parametrize("every", [1, 2])
def test_eviction_runs_after_each_so_many_steps(every):
    rng = np.random.default_rng(3)
    model = FactorizationMachine(COLUMNS, Options(eviction=GlobalStepEviction(1)))
    train(model, [batch(rng, rows=4, ids=500) for _ in range(7)], evict_every=every)
    oldest = min(state.steps.min() for state in model.states().values())
    assert oldest >= 7 - 7 % every - 1
    assert model.evict() > 0 or every == 1


def test_it_begins_alike_and_serves_zeros():
    rng = np.random.default_rng(4)
    ids, _ = batch(rng)
    one, other = FactorizationMachine(COLUMNS), FactorizationMachine(COLUMNS, seed=1)
    assert np.array_equal(one._rows(ids, True), FactorizationMachine(COLUMNS)._rows(ids, True))
    assert not np.array_equal(one._rows(ids, True), other._rows(ids, True))
    assert not one._rows(ids, False).any() and not one.predict(ids).any()
    vectors = one._rows(ids, True)[..., 1:]
    assert 0.02 < vectors.std() < 0.04 and abs(vectors.mean()) < 0.01


@pytest.mark.parametrize("options", [None, Options(admission=CounterFilter(3)), Options(eviction=GlobalStepEviction(2))])
def test_the_compiled_engine_computes_the_same(options):
    rng = np.random.default_rng(5)
    batches, held_out = [batch(rng, ids=40) for _ in range(20)], [batch(rng, 200, ids=60)]
    one, other = FactorizationMachine(COLUMNS, options), CompiledMachine(COLUMNS, options)
    evict_every = 3 if options and options.eviction else 0
    np.testing.assert_allclose(train(one, batches, evict_every), train(other, batches, evict_every), rtol=1e-6)
    assert one.rows() == other.rows() > 0 and auc(one, held_out) == pytest.approx(auc(other, held_out), abs=1e-4)
    for wanted, found in zip(one.states().values(), other.states().values()):
        order = np.argsort(found.keys)
        assert np.array_equal(found.keys[order], wanted.keys)
        assert np.array_equal(found.frequencies[order], wanted.frequencies)
        assert np.array_equal(found.steps[order], wanted.steps)
        np.testing.assert_allclose(found.values[order], wanted.values, rtol=1e-4, atol=1e-6)


def test_the_compiled_engine_says_what_it_holds():
    model = CompiledMachine(COLUMNS)
    empty = model.bytes()
    train(model, [batch(np.random.default_rng(6), 4_000, ids=4_000)])
    assert model.bytes() - empty > model.rows() * 4 * 2 * (1 + model.dim)  # values and Adagrad's slot


def test_a_functions_eviction_is_the_definitions():
    rng, options = np.random.default_rng(2), Options(eviction=GlobalStepEviction(3))
    own, other = FactorizationMachine(COLUMNS, options), EvictedBy(evict, COLUMNS, options)
    for number in range(12):
        ids, labels = batch(rng, rows=4, ids=40)
        for model in (own, other):
            model.step(ids, labels)
        if number % 4 == 3:
            gone = own.evict()
            assert other.evict() == gone and (gone > 0 or number == 3)
        assert own.rows() == other.rows()
        np.testing.assert_array_equal(own.predict(ids), other.predict(ids))
    for column, table in own.tables.items():
        assert table.rows.keys() == other.tables[column].rows.keys() and table.touched == other.tables[column].touched

"""The proof of "same weights, same answers", over every rung of every model.

A rung that changes nothing but speed gives the baseline's loss, logits and gradients from several of the baseline's states,
and the baseline's variables and slots after a step.
"""

import dataclasses
import functools

import numpy as np
import pytest

from ctrlab.errors import CtrlabError
from ctrlab.optimizations import LADDER, STOCK, resolve
from ctrlab.training import equality
from ctrlab.training.equality import compare
from tests.few_columns import FEW, few, kinds

MODEL_RUNGS = [r for r in LADDER if r.level == "model" and not r.changes_results]
CASES = [(model, rung.name) for rung in MODEL_RUNGS for model in rung.models]
CASES += [(model, "all") for model in sorted({m for r in MODEL_RUNGS for m in r.models if len(MODEL_RUNGS) > 1})]
CASES += [(model, STOCK.name) for model in STOCK.models]  # the rival of all computes the same, too
STEPS = (0, 3, 10)
# Single rungs are proven on some columns of each kind, all of them and the rival on every column.
WHOLE = ("all", STOCK.name)
# What a wrong rung would have to get wrong at the most to be seen, of each tensor. Moves are less sure: `move_tolerance`.
SEEN_GRADIENT, SEEN_MOVE = 0.01, 0.1


class Trained:
    """A model, and what it answers from a state: loss, logits, gradients, and the moves of one step. All come from one trace."""

    def __init__(self, model):
        from ctrlab.training import make_optimizer

        self.model, self.optimizer = model, make_optimizer(model)
        self.answer = equality.answers_and_moves(model, self.optimizer)

    def answers_from(self, state, batch):
        return self.answer(state, *batch)

    def state(self):
        from ctrlab.training import get_state

        return get_state(self.model, self.optimizer)


@pytest.fixture(scope="module")
def baselines(small_batches, few_batches):
    """`baselines(model, whole)` -> (schema, [(state, batch, the answers, tolerances)] of the baseline after 0, 3, 10 steps), made
    on first use."""
    from ctrlab.model_names import DATA_SETS
    from ctrlab.models import build

    @functools.cache
    def of(name, whole):
        schema, batches = (small_batches if whole else few_batches)(DATA_SETS[name])
        baseline = Trained(build(name, schema))
        states = [baseline.state()]
        for number in range(max(STEPS)):
            baseline.answers_from(states[-1], batches[number % len(batches)])
            states.append(baseline.state())
        return schema, [(states[steps], *determined(baseline, states[steps], batches)) for steps in STEPS]

    return of


def determined(baseline, state, batches):
    """A batch, the baseline's answers, and how well each of them is determined: how far it moves with the weights' rounding.

    Where a ReLU's input lies within rounding of 0, chance decides whether its gradient is 0 or 1. So the last batch is taken on
    which the baseline is sure of most of its gradients.
    """
    for batch in reversed(batches):
        expected = baseline.answers_from(state, batch)
        sure = expected.keys() - equality.zeros_of(expected).keys()
        least = {k: equality.move_tolerance(k, state, expected) if k.startswith("step") else equality.TOLERANCE for k in sure}
        tolerances = equality.determined(lambda s: baseline.answers_from(s, batch), state, expected, least)  # noqa: B023
        gradients = [v for key, v in tolerances.items() if key.startswith("gradient")]
        if tolerances["loss"] == tolerances["logits"] == np.median(gradients) == equality.TOLERANCE:
            return batch, expected, tolerances
    raise AssertionError("the baseline is sure of its gradients on no batch")


@pytest.mark.parametrize("name,rungs", CASES)
def test_rungs_change_nothing_but_speed(baselines, name, rungs):
    from ctrlab.models import build

    schema, cases = baselines(name, rungs in WHOLE)
    changed = Trained(build(name, schema, rungs))
    assert changed.model.rungs
    trainable = {f"gradient/{v.path}" for v in changed.model.trainable_variables}
    for state, batch, expected, tolerances in cases:
        assert trainable <= set(expected), "every trainable variable must have a gradient"
        assert equality.differences(expected, changed.answers_from(state, batch), tolerances) == []


def test_every_model_rung_is_covered():
    assert {r for _, r in CASES} >= set(resolve("all", level="model"))


@pytest.mark.parametrize("name", FEW)
def test_few_columns_are_of_every_kind(name):
    from ctrlab import data

    whole = data.schema(name)
    assert kinds(few(whole)) == kinds(whole) and len(few(whole).columns) <= 12


@pytest.mark.parametrize("name", sorted({model for model, _ in CASES}))
def test_a_wrong_tensor_is_noticed_whichever_it_is(baselines, name):
    for _, _, expected, tolerances in baselines(name, True)[1]:
        zeros = equality.zeros_of(expected)
        assert len(zeros) == (4 if name in ("din", "dien") else 0)  # gradient, move, m and v
        assert equality.differences(expected, expected, tolerances) == []
        for key, right in expected.items():
            beside = {zeros[key]: expected[zeros[key]]} if key in zeros else {}
            error = SEEN_MOVE if key.startswith("step") else SEEN_GRADIENT
            for wrong in wrong_tensors(right, error, *beside.values()):
                odd = equality.differences({key: right} | beside, {key: wrong} | beside, tolerances)
                assert [d.tensor for d in odd] == [key], f"{key} times {error}"
            assert [d.tensor for d in equality.differences({key: right} | beside, beside, tolerances)] == [key]


def wrong_tensors(right, error, beside=None):
    """`right` off by `error` of itself or, where it should be 0, of the tensor beside it; no number; another shape."""
    if beside is not None or not np.any(right):
        scale = np.full_like(right, 1.0 if beside is None else np.linalg.norm(beside))
    else:
        scale = right
    return right + error * scale, right - error * scale, np.full_like(right, np.nan), right[None]


def test_a_wrong_rung_is_noticed(baselines, monkeypatch):
    from ctrlab.models import build
    from ctrlab.ops import indicator

    schema, cases = baselines("deepfm", False)
    wrong = dataclasses.replace(indicator.OP, fused=lambda *args: 1.001 * indicator.baseline(*args))
    monkeypatch.setattr(indicator, "OP", wrong)
    state, batch, expected, tolerances = cases[-1]
    odd = equality.differences(expected, Trained(build("deepfm", schema, "indicator")).answers_from(state, batch), tolerances)
    assert "gradient/linear/indicator_kernel" in {d.tensor for d in odd}


def test_what_only_rounding_decides_is_found():
    state = {"model/w": np.array([1.0, -2.0, 0.5], np.float32), "optimizer/w_m": np.ones(3, np.float32), "step": np.int64(3)}
    moved = equality.rounded_randomly(state, seed=0)
    assert np.all(moved["model/w"] != state["model/w"])
    np.testing.assert_allclose(moved["model/w"], state["model/w"], rtol=2e-7)
    assert moved["optimizer/w_m"] is state["optimizer/w_m"] and moved["step"] is state["step"]


@pytest.mark.parametrize(
    "at, rounded, says",
    [
        ([1, np.nan], [1, 2], "the baseline's 'gradient/w' has 1 of 2 numbers that are not"),
        ([np.inf, np.nan], [1, 2], "2 of 2"),
        ([1, 2], [1, np.inf], "the baseline's 'gradient/w' is not finite"),
        ([0, 0], [1e-9, 0], "the baseline's 'gradient/w' is no longer 0"),
    ],
)
def test_no_tolerance_is_infinite(at, rounded, says):
    expected, other = ({"gradient/w": np.array(values, np.float32)} for values in (at, rounded))
    with pytest.raises(CtrlabError, match=says):
        equality.determined(lambda state: other, {}, expected)


def test_the_comparison_notices_a_wrong_gradient():
    right = {"gradient/w": np.array([1.0, 2.0, 3.0], np.float32)}
    assert compare(right, {"gradient/w": right["gradient/w"] * np.float32(1 + 1e-7)}) == []
    assert compare(right, {"gradient/w": right["gradient/w"] * np.float32(1.001)})
    assert compare(right, {"gradient/w": np.full(3, np.nan, np.float32)})
    assert compare(right, {"gradient/w": np.zeros((3, 1), np.float32)})
    assert compare(right, {})
    assert compare({"gradient/w": np.zeros(3)}, right)

"""Models that are trained on the same batches."""

import math

import pytest

from ctrlab import training
from ctrlab.errors import CtrlabError
from ctrlab.lessons import side_by_side
from ctrlab.profiling import charts


class Model:
    """A weight that each step moves by `slope`; the loss is 1 / (1 + weight)."""

    def __init__(self, slope):
        self.weight, self.slope = 0.0, slope

    def step(self, features, labels):
        loss = 1 / (1 + self.weight)
        self.weight += self.slope
        return loss


@pytest.fixture
def chart(monkeypatch):
    made = []
    monkeypatch.setattr(charts, "LiveChart", lambda *args, **kw: made.append(kept(*args, **kw)) or made[0])

    def copied(source, *targets):
        for model, _ in targets:
            model.weight = source[0].weight

    monkeypatch.setattr(training, "copy_state", copied, raising=False)
    return made


kept = charts.LiveChart


def test_the_second_step_shows_a_weight_that_moves_otherwise(chart, capsys):
    models = {"none": Model(1.0), "fast": Model(1.5), "same": Model(1.0)}
    sides = {name: (model, None, model.step) for name, model in models.items()}
    losses = side_by_side.train(sides, [(0, 0)] * 4)
    assert losses["none"] == losses["same"] == [1, 1 / 2, 1 / 3, 1 / 4]
    assert losses["fast"] == [1, 1 / 2.5, 1 / 3, 1 / 4.5]  # on the baseline's weight before every second step
    steps, apart = chart[0].history["fast"]
    assert steps == [0, 1, 2, 3] and apart == pytest.approx([1e-9, 0.2, 1e-9, 1 - 4 / 4.5])
    assert chart[0].history["same"][1] == [1e-9] * 4 and set(chart[0].history["tolerance"][1]) == {1e-5}
    assert "none's loss went from 1.000 to 0.250 in 4 steps." in capsys.readouterr().out


def test_before_each_step(chart):
    models = {"none": Model(1.0), "fast": Model(1.5)}
    losses = side_by_side.train({n: (m, None, m.step) for n, m in models.items()}, [(0, 0)] * 3, same_state_every=1)
    assert losses["fast"] == losses["none"]


def test_one_model_has_no_side():
    with pytest.raises(CtrlabError, match="at least two; 1 was given"):
        side_by_side.train({"none": (None, None, None)}, [])


NAN, INF = math.nan, math.inf


UNLIKE = [(0.5, NAN), (NAN, 0.5), (NAN, NAN), (INF, INF), (0.5, INF), (0, 0.5)]


@pytest.mark.parametrize("expected, received, drawn", [(*pair, NAN) for pair in UNLIKE] + [(0, 0, 1e-9), (2, 3, 0.5)])
def test_what_is_no_number_is_a_gap_and_is_said(chart, capsys, expected, received, drawn):
    said = {"none": expected, "fast": received}
    sides = {name: (Model(0), None, lambda *_, loss=loss: loss) for name, loss in said.items()}
    side_by_side.train(sides, [(0, 0)])
    assert chart[0].history["fast"][1] == pytest.approx([drawn], nan_ok=True)
    out = capsys.readouterr().out
    for name, loss in said.items():
        words = f"{name}'s loss is not finite in 1 of 1 steps, first in step 0: {loss}."
        assert (words in out) == (not math.isfinite(loss))

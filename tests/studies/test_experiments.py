"""A main model and its variants on a large machine."""

import dataclasses

import pytest
from ctrlab.lessons.topics.share_cores.allocation import POLICIES, most_load
from ctrlab.lessons.topics.share_cores.curve import ServiceCurve
from ctrlab.lessons.topics.share_cores.experiment import Experiment

from ctrlab.errors import CtrlabError
from studies.fleet.vary import VARIED, carried

CURVE = ServiceCurve(2e-4, 4e-6)


def test_an_experiment_is_one_cores_work():
    loads = Experiment(variants=4, share=0.3, patience=6.0).loads(CURVE, ServiceCurve(1e-3, 1e-5))
    assert [*loads] == ["main", "variant 1", "variant 2", "variant 3", "variant 4"]
    assert sum(load.work for load in loads.values()) == pytest.approx(1.0)
    assert loads["main"].work == pytest.approx(0.7) and loads["variant 3"].work == pytest.approx(0.3 / 4)
    assert loads["main"].within == pytest.approx(6 * CURVE.mean(350 / 3))


def test_one_thing_is_varied_at_a_time():
    usual = dataclasses.asdict(VARIED[0])
    for each in VARIED[1:]:
        assert sum(value != usual[name] for name, value in dataclasses.asdict(each).items()) == 1


def test_what_policies_carry():
    """Many small variants waste cores of their own; no policy carries more than the machine."""
    found = carried(Experiment(variants=12), CURVE, CURVE, 24, requests=4_000)
    assert found.keys() == POLICIES.keys() and all(0 < share <= 1 for share in found.values())
    assert found["split"] < 0.8 * found["dedicated"]


def test_crowded_cores_carry_less():
    crowded = dataclasses.replace(CURVE, crowding=0.5)
    loads = [Experiment(2, crowding=times).loads(crowded, crowded) for times in (0.0, 1.0)]
    alone, beside = (most_load("shared", each, 4, seconds=0.2) for each in loads)
    assert alone > 1.2 * beside > 0


@pytest.mark.parametrize("odd", [{"variants": 0}, {"share": 0.0}, {"share": 1.0}, {"patience": 0.0}, {"crowding": -1.0}])
def test_experiments_that_can_not_be(odd):
    with pytest.raises(CtrlabError, match="An experiment has at least one variant"):
        Experiment(**odd)

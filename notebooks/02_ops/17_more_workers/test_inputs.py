"""Inputs that the simulator's constants, fits and maps don't take are refused in one sentence."""

import math

import numpy as np
import pytest
from ctrlab.lessons.topics.more_workers import constants, published, surface
from ctrlab.lessons.topics.more_workers.fitting import Fitted, Setting, fit, line_through

from ctrlab.distributed.simulator.cluster import Cluster, Host, Link
from ctrlab.distributed.simulator.model import Model
from ctrlab.errors import CtrlabError
from studies.simulator import measure

NEAR = Link(1e-5, 1e-9)
NODES, MODEL = Cluster(4, NEAR, NEAR, Host(8)), Model(1, 0.0, 1e-6)
NAN = math.nan
WRONG = {
    "at least two batch sizes": lambda: line_through({100: [1.0]}),
    "received {100: 1, 200: 0} times": lambda: line_through({100: [1.0], 200: []}),
    "Seconds of 200 examples must be .* received nan at index 1": lambda: line_through({100: [1.0], 200: [1.0, NAN]}),
    "A line's batch sizes must be .* received -1 at index 0": lambda: line_through({-1: [1.0], 2: [1.0]}),
    "The most workers must be .* received 0": lambda: surface.best(MODEL, NODES, [8], most=0),
    "The most workers must be .* received 2.5": lambda: surface.best(MODEL, NODES, [8], most=2.5),
    "A worker's FLOP/s must be .* above 0; received 0": lambda: surface.wider(MODEL, 2, 0),
    "Dense weights must be .* received -2": lambda: surface.wider(MODEL, -2, 1e12),
    "received nan": lambda: surface.over_dense(MODEL, NODES, 1e12, [NAN], [8]),
    "megabits per second must be .* above 0; received 0": lambda: surface.over_bandwidth(MODEL, NODES, [0], [8]),
    "Seconds of steps that are compared must be .* above 0": lambda: surface.speedup(Model(0, 0, 0), NODES, 4, 1, [8]),
    "A device's bytes per second must be .* above 0; received 0": lambda: constants.per_row(16, 0),
    "Dense weights whose ranges are sought must be .* received 0": lambda: published.ranges(dense=0),
    "Examples of a step whose ranges are sought must be .* received nan": lambda: published.ranges(examples=NAN),
    "Examples of a step that is measured must be .* received 0 at index 1": lambda: measure.parts("dlrm", "tiny", (8, 0)),
    "Tensors that are handed over must be .* received 0": lambda: measure.tensor_seconds(0),
    "A step's ops must be .* received 0": lambda: measure.Launches(0, 0),
    "A setting's measured seconds must be .* above 0; received 0": lambda: Setting(2, 8, None, 0.0, 1.0),
    "megabits per second must be": lambda: Fitted(MODEL, Host(2)).seconds(2, 8, 0),
    "at least four settings": lambda: fit([], [], 2),
}


@pytest.mark.parametrize("says", WRONG)
def test_numbers_that_can_not_be_are_refused(says):
    with np.errstate(all="raise"), pytest.raises(CtrlabError, match=says) as refused:
        WRONG[says]()
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 300

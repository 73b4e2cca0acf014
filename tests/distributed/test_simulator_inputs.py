"""Inputs that can't be simulated are refused in one sentence, by each public name that takes them."""

import math

import numpy as np
import pytest

from ctrlab.distributed.simulator.cluster import Cluster, Host, Link
from ctrlab.distributed.simulator.model import Distinct, Model
from ctrlab.distributed.simulator.step import all_reduce, all_to_all, step
from ctrlab.errors import CtrlabError

NEAR = Link(1e-5, 1e-9)
NODES, MODEL = Cluster(4, NEAR, NEAR, Host(8)), Model(1, 0.0, 1e-6)
NAN = math.nan
WRONG = {
    "latency must be a finite number of at least 0; received -1e-06": lambda: Link(-1e-6, 0),
    "per byte must be a finite number": lambda: Link(0, NAN),
    "A link's latency must be a finite number of at least 0; received '50 us'": lambda: Link("50 us", 0),
    "megabits per second must be a finite number above 0; received 0. A link whose": lambda: Link.of(megabits=0, latency=0),
    "above 0; received nan": lambda: Link.of(megabits=NAN, latency=0),
    "above 0; received inf": lambda: Link.of(megabits=math.inf, latency=0),
    "above 0; received None": lambda: Link.of(megabits=None, latency=0),
    "latency must be a finite number of at least 0; received array": lambda: Link.of(megabits=1, latency=np.ones(2)),
    "cores must be a finite number of at least 1; received 0": lambda: Host(0),
    "A host's launch must be .* received inf": lambda: Host(1, launch=math.inf),
    "A host's loop must be of the type bool; received 'no'": lambda: Host(1, loop="no"),
    "workers per node must be a finite whole number of at least 1; received 1.5": lambda: Cluster(1.5, NEAR, NEAR, Host(1)),
    "A cluster's between must be of the type Link; received 10": lambda: Cluster(1, NEAR, 10, Host(1)),
    "A cluster's host must be of the type Host; received None": lambda: Cluster(1, NEAR, NEAR, None),
    "reductions must be a finite number of at least 1": lambda: Model(1, 0, 0, reductions=0),
    "A model's dense must be .* received nan": lambda: Model(NAN, 0, 0),
    "A model's dense must be .* received True": lambda: Model(True, 0, 0),
    "A model's per example must be .* received 1000000.*": lambda: Model(1, 0, 10**400),
    "A model's distinct must be of the type Distinct; received 5": lambda: Model(1, 0, 0, distinct=5),
    "ascending numbers of examples": lambda: Distinct((2.0, 1.0), (1.0, 2.0)),
    "never get fewer": lambda: Distinct((1.0, 2.0), (2.0, 1.0)),
    "counted at ascending numbers": lambda: Distinct((), ()),
    "at ascending numbers of examples": lambda: Distinct((1.0, 2.0), (2.0,)),
    "Counts of distinct ids must be .* received nan at index 1": lambda: Distinct((1.0, 2.0), (2.0, NAN)),
    "Counts of distinct ids must be": lambda: Distinct((1.0, 2.0), ((2.0,), (1.0, 2.0))),
    "rows of Zipf's law must be .* at least 1; received 0.5": lambda: Distinct.zipf(0.5, 1),
    "exponent of Zipf's law must be .* received nan": lambda: Distinct.zipf(5, NAN),
    "Ids per example must be .* above 0; received 0": lambda: Distinct.zipf(5, 1, 0),
    "at least one is counted": lambda: Distinct.zipf(5, 1, first=5),
    "received nan to inf": lambda: Distinct.zipf(5, 1, first=NAN),
    "vocabulary of counted ids must be .* at least 3; received 2": lambda: Distinct((1.0, 9.0), (1.0, 3.0), 2.0),
    "distinct ids are asked must be .* received -1": lambda: Distinct((1.0,), (1.0,))(-1),
    "number of workers must be a finite whole number of at least 1; received 0": lambda: step(MODEL, NODES, 0, 10),
    "whole number of at least 1; received 1.5": lambda: step(MODEL, NODES, 1.5, 10),
    "whole number of at least 1; received nan": lambda: step(MODEL, NODES, NAN, 10),
    "received 2.5 at index \\(1, 0\\)": lambda: step(MODEL, NODES, np.array([[1], [2.5]]), 10),
    "Examples of a step must be .* received nan": lambda: step(MODEL, NODES, 2, NAN),
    "Examples of a step must be .* received -1": lambda: step(MODEL, NODES, 2, -1),
    "broadcast against each other; received the shapes": lambda: step(MODEL, NODES, [1, 2], [1, 2, 3]),
    "Bytes that workers send must be .* received -4": lambda: all_reduce(-4, 1, NODES, 2),
    "How often workers talk must be .* received nan": lambda: all_reduce(4, NAN, NODES, 2),
    "number of workers must be .* received 0": lambda: all_reduce(4, 1, NODES, 0),
    "number of workers must be .* received 2.5": lambda: all_to_all(4, 1, NODES, 2.5),
    "Bytes that workers send must be .* received inf": lambda: all_to_all(math.inf, 1, NODES, 2),
}


@pytest.mark.parametrize("says", WRONG)
def test_numbers_that_can_not_be_are_refused(says):
    with np.errstate(all="raise"), pytest.raises(CtrlabError, match=says) as refused:
        WRONG[says]()
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 300


def test_a_step_that_takes_no_time_has_no_share_of_launches():
    with np.errstate(all="raise"):
        assert step(Model(0, 0, 0), NODES, [1, 2], 8).launch_share.tolist() == [0, 0]


def test_numpy_s_numbers_are_numbers():
    link = Link.of(megabits=np.float32(8), latency=np.int64(0))
    assert step(Model(np.int64(4), 0, 0), Cluster(np.int64(2), link, link, Host(1)), np.int32(2), 8).seconds > 0

"""The seconds of a step, term by term against sums by hand."""

from dataclasses import replace

import numpy as np
import pytest

from ctrlab.distributed.simulator.cluster import Cluster, Host, Link
from ctrlab.distributed.simulator.model import Distinct, Model
from ctrlab.distributed.simulator.step import all_reduce, all_to_all, sent, step
from ctrlab.errors import CtrlabError

NEAR, FAR = Link(1e-5, 1e-9), Link(1e-4, 8e-9)
NODES = Cluster(4, NEAR, FAR, Host(8))


def test_a_ring_of_one_node_has_two_rounds_of_all_but_one():
    # 2 rounds of 3 steps; each worker sends 3/4 of the bytes in each round.
    assert all_reduce(4e6, 1, NODES, 4) == pytest.approx(6 * 1e-5 + 2 * 3e6 * 1e-9)
    assert all_reduce(4e6, 1, NODES, 1) == 0


def test_a_ring_over_nodes_has_the_rate_of_its_slowest_link():
    # 8 workers on 2 nodes: 14 steps, 2 of them between the nodes.
    assert all_reduce(8e6, 3, NODES, 8) == pytest.approx(3 * (12 * 1e-5 + 2 * 1e-4) + 14 / 8 * 8e6 * 8e-9)

    # Also where that is the one inside of a node.
    backwards = Cluster(4, FAR, NEAR, Host(8))
    assert all_reduce(8e6, 1, backwards, 8) == pytest.approx(12 * 1e-4 + 2 * 1e-5 + 14 / 8 * 8e6 * 8e-9)


def test_the_workers_of_a_node_share_its_link_when_all_send_to_all():
    # Each of 8 workers keeps 1/8, gives 3/8 to its node's and 4/8 to the other node's, over a link that 4 workers share.
    needed = 3e6 * 1e-9 + 4 * 4e6 * 8e-9
    assert all_to_all(8e6, 2, NODES, 8) == pytest.approx(2 * 1e-4 + needed)
    assert all_to_all(8e6, 2, NODES, 1) == 0


def test_latencies_of_an_exchange_pass_together_and_a_host_handles_one_message_after_the_other():
    host = Host(2, message=1e-3)
    assert all_to_all(0.0, 3, Cluster(4, NEAR, FAR, host), 2) == pytest.approx(3 * (1e-5 + 1e-3))
    assert all_to_all(0.0, 3, Cluster(4, NEAR, FAR, host), 4) == pytest.approx(3 * (1e-5 + 3 * 2e-3))  # four threads on two cores
    assert all_to_all(0.0, 1, Cluster(4, FAR, NEAR, Host(8)), 8) == pytest.approx(1e-4)  # the slower link's


def test_a_step_is_the_sum_of_its_parts():
    host = Host(cores=8, threads=1, busy=12, launch=1e-5, tensor=2e-5, copy=1e-10, loop=True)
    distinct = Distinct((100.0, 1_000.0), (500.0, 2_000.0))
    model = Model(1e6, 1e-3, 1e-6, dim=16, distinct=distinct, kernels=800, tensors=40, bytes=3_000, reductions=2)
    found = step(model, Cluster(4, NEAR, FAR, host), 4, 4_000)
    assert found.compute == pytest.approx(1e-3 + 1e-6 * 1_000)
    assert found.launches == pytest.approx(800 * 1e-5 * (4 + 12) / 8 - 2e-3)  # 16 threads on 8 cores
    assert found.copies == pytest.approx(4 * (40 * 2e-5 * 2 + 3_000 * 1_000 * 1e-10))
    assert found.reduce == pytest.approx(2 * 6 * 1e-5 + 1.5 * 4e6 * 1e-9)
    assert found.exchange == pytest.approx(3 * 1e-5 + 3 / 4 * 2_000 * (8 + 2 * 4 * 16) * 1e-9)
    parts = (found.compute, found.launches, found.copies, found.reduce, found.exchange)
    assert found.seconds == pytest.approx(sum(parts))
    assert found.launch_share == pytest.approx(found.launches / found.seconds)


def test_a_worker_sends_what_is_not_its_own():
    model = Model(1e6, 0, 0, ids=26, dim=16, id_bytes=4, distinct=Distinct((1_000.0,), (500.0,)), padding=1.25)
    assert sent(model, 4, 4_000) == pytest.approx(3 / 4 * (2 * 4e6 + 1.25 * 500 * (4 + 2 * 64)))
    assert sent(replace(model, sharded=False), 4, 4_000) == pytest.approx(3 / 4 * (2 * 4e6 + 4_000 * 26 * (4 + 64)))
    for sharded in (True, False):
        assert sent(replace(model, dim=0, sharded=sharded), [1, 4], 4_000).tolist() == [0, 3 / 4 * 8e6]  # no tables
    # On links with a cost per byte alone, these are the seconds of a step.
    flat = Cluster(8, Link(0, 1e-9), FAR, Host(8))
    assert step(model, flat, [2, 3, 8], 4_000).seconds == pytest.approx(1e-9 * sent(model, [2, 3, 8], 4_000))


def test_a_loop_feeds_the_workers_of_its_own_node():
    host = Host(cores=8, tensor=2e-5, copy=1e-10, loop=True)
    model = Model(0, 1.0, 0.0, tensors=40, bytes=3_000)
    each = 40 * 2e-5 + 3_000 * 100 * 1e-10
    copies = step(model, Cluster(4, NEAR, FAR, host), np.array([1, 3, 4, 8, 12]), np.array([1, 3, 4, 8, 12]) * 100).copies
    assert copies == pytest.approx(np.array([1, 3, 4, 4, 4]) * each)
    host = Host(cores=8, tensor=2e-5, copy=1e-10)
    assert step(model, Cluster(4, NEAR, FAR, host), 8, 800).copies == pytest.approx(each)


def test_whole_tables_send_every_gradient_to_all_and_apply_all():
    model = Model(0, 0.0, 1e-6, ids=10, dim=16, sharded=False, per_row=1e-8)
    found = step(model, NODES, 4, 4_000)
    assert found.compute == pytest.approx(1e-3 + 1e-8 * 10 * 3_000)
    assert found.exchange == pytest.approx(3 * 1e-5 + 3 / 4 * 4_000 * 10 * (8 + 4 * 16) * 1e-9)


def test_workers_that_share_cores_wait_for_each_other():
    host = Host(cores=2, threads=1, computes=True, message=1e-3)
    model, cluster = Model(1e6, 0.01, 1e-5), Cluster(8, NEAR, FAR, host)
    one, four = step(model, cluster, 1, 1_000), step(model, cluster, 4, 1_000)
    assert one.compute == pytest.approx(0.02)
    assert four.compute == pytest.approx(2 * (0.01 + 250e-5))
    assert four.reduce == pytest.approx(6 * (1e-5 + 2e-3) + 1.5 * 4e6 * 1e-9)


def test_a_host_sends_no_faster_than_it_can():
    slow, fast = (Cluster(1, link, link, Host(2, byte=1e-8)) for link in (Link(0, 8e-8), Link(0, 1e-9)))
    assert all_reduce(1e6, 1, slow, 2) == pytest.approx(1e6 * 8e-8)
    assert all_reduce(1e6, 1, fast, 2) == pytest.approx(1e6 * 1e-8)


def test_exchanges_have_work_of_their_own():
    distinct = Distinct((1_000.0,), (500.0,))
    model = Model(0, 0.01, 0, dim=4, distinct=distinct, sharing=0.02, per_id=1e-5, padding=1.5)
    alone, two = step(model, NODES, 1, 1_000), step(model, NODES, 2, 2_000)
    assert alone.compute == pytest.approx(0.01) and alone.exchange == 0
    assert two.compute == pytest.approx(0.01 + 0.02 + 500 * 1e-5)
    assert two.exchange == pytest.approx(3e-5 + 1.5 * 250 * (8 + 32) * 1e-9)


def test_arrays_give_what_single_numbers_give():
    model = Model(1e6, 1e-3, 1e-6, dim=16, distinct=Distinct.zipf(1e6, 1.0, 20))
    workers, examples = np.array([[1], [4], [9]]), np.array([512, 65_536])
    grid = step(model, NODES, workers, examples)
    each = [[step(model, NODES, w, b).seconds for b in examples] for (w,) in workers]
    assert grid.seconds.shape == (3, 2) and np.allclose(grid.seconds, each, rtol=1e-12)


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.2])
def test_zipfs_law_is_summed_as_the_formula_says(exponent):
    p = np.arange(1.0, 50_001) ** -exponent
    p /= p.sum()
    law = Distinct.zipf(50_000, exponent, per_example=3)
    for n in (1, 64, 4_096, 65_536):
        assert law(n) == pytest.approx(np.sum(1 - (1 - p) ** (3 * n)), rel=0.01)


def test_between_counts_distinct_ids_are_a_line_in_logarithms():
    counted = Distinct((100.0, 10_000.0), (400.0, 4_000.0), vocabulary=90_000.0)
    assert counted(1_000) == pytest.approx(np.sqrt(400 * 4_000))
    assert counted(1e6) == pytest.approx(40_000)  # the line goes on: ten times as many per hundred times the examples
    assert counted(25) == pytest.approx(100) and counted(0) == 0


def test_no_batch_has_more_distinct_ids_than_there_are():
    counted = Distinct((100.0, 10_000.0), (400.0, 4_000.0), vocabulary=30_000.0)
    assert counted(5e5) < 30_000 and counted(1e6) == counted(1e12) == 30_000
    every = Distinct((1.0,), (26.0,))
    assert every(1e6) == pytest.approx(26e6) and Distinct((1.0,), (26.0,), 1e6)(1e6) == 1e6
    for law in (Distinct.zipf(1_000, 0.0, 5), Distinct.zipf(1_000, 1.5, 5)):
        assert law(np.array([2.0**40, 1e15])).max() <= 1_000 == law.vocabulary
    assert Distinct.zipf(1_000, 1.0, first=100, last=300)(1e12) <= 200


def test_beyond_what_was_counted_nothing_is_said_of_an_unknown_vocabulary():
    counted = Distinct((100.0, 10_000.0), (400.0, 4_000.0))
    assert counted(10_000) == pytest.approx(4_000)
    with pytest.raises(CtrlabError, match=r"at most 10000; received 10001\. Count larger batches, or say the vocabulary"):
        counted(10_001)
    # One worker asks nobody, so that a step's whole batch may be larger than what was counted.
    model = Model(0, 0.0, 1e-6, dim=4, distinct=counted, per_id=1e-6)
    assert step(model, NODES, np.array([1, 4]), 40_000).seconds[0] == pytest.approx(0.04)
    with pytest.raises(CtrlabError, match="at most 10000; received 20000 at index 1"):
        step(model, NODES, np.array([1, 2]), 40_000)
